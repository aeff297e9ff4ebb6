"""
Every backend has the same weights, batches, updates and evaluations on two devices as PyTorch on one.

Runs take the real training path. Most of their time is the start of the framework, so several tests look at each run,
and several runs share a start. One run of each framework is started as users' runs are.
"""

from pathlib import Path

import numpy as np
import pytest

from howmanygpus.measure.models.initialization import draw_weights
from howmanygpus.measure.models.networks import list_draws
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.invalidation.code import LIBRARY, collect_training_code, list_unmeasured
from howmanygpus.study.invalidation.syntax import read_code
from measure.asked import (
    AHEAD,
    ALONE,
    BY_BATCH,
    BY_RUNNING,
    COMPRESSING,
    DIVERGING,
    EXCHANGING,
    IN_SMALL_BATCHES,
    LARGEST,
    NORMALIZED,
    ON_TWO,
    RANKS,
    RESIDENT,
    UNCOMPRESSED,
    WITHOUT_FLIP,
    compress,
    two_epochs,
)
from measure.launching import BACKENDS, COMPILE_SOON
from project import ROOT

FLOAT32_NOISE = 2e-5
"""Relative tolerance for a gradient. float32 sums in another order cause up to 3e-6."""
UPDATES_NOISE = 5e-4
"""Relative tolerance after several steps, in which differences grow. Another momentum rule is off by 1e-1."""


def relative_difference(first: dict, second: dict) -> float:
    """Return the maximum over the arrays of max|a - b| / max|b|."""
    assert first.keys() == second.keys()
    return max(np.abs(first[name] - second[name]).max() / (np.abs(second[name]).max() + 1e-12) for name in second)


TRAINED = [(name, count, "sgd", AHEAD) for name, count in LARGEST]
TRAINED += [(name, count, "adam", IN_SMALL_BATCHES) for name, count in LARGEST]


def reference(run, optimizer: str):
    return run(BACKENDS[0], 1, **two_epochs(optimizer))


@pytest.mark.parametrize(("framework", "num_gpus", "optimizer", "asked"), TRAINED)
def test_weights_arrive_bit_for_bit(run, framework, num_gpus, optimizer, asked):
    finished = run(framework, num_gpus, **asked)
    expected = draw_weights(list_draws("small_cnn", (6, 6, 1), 10), seed=1)
    assert finished.initial_weights.keys() == expected.keys()
    assert all(np.array_equal(finished.initial_weights[name], expected[name]) for name in expected)


@pytest.mark.parametrize(("framework", "num_gpus", "optimizer", "asked"), TRAINED)
def test_updates_agree_over_several_steps_with_a_changing_rate(run, framework, num_gpus, optimizer, asked):
    """The updates agree with and without prefetching. Each device has half of the batch."""
    first, second = reference(run, optimizer), run(framework, num_gpus, **asked)
    assert first.record["steps"] == second.record["steps"] == 6
    assert second.record["images_seen"] == 2 * 24, "the incomplete batch of each epoch is dropped"
    assert second.record["host_to_device_gib_per_s"] is None, "the device is the host"
    assert max(np.abs(array).max() for array in first.update.values()) > 1e-3
    assert relative_difference(second.update, first.update) < UPDATES_NOISE


def test_another_batch_would_be_noticed(run):
    without_flip = run(BACKENDS[0], 1, **WITHOUT_FLIP).update
    assert relative_difference(without_flip, reference(run, "sgd").update) > 100 * UPDATES_NOISE


@pytest.mark.parametrize(("framework", "num_gpus", "optimizer", "asked"), TRAINED)
def test_every_test_image_is_evaluated_once_whoever_predicts(run, framework, num_gpus, optimizer, asked):
    predictions, expected = run(framework, num_gpus, **asked).predictions, reference(run, optimizer).predictions
    assert predictions["epoch"].tolist() == [1, 2]
    assert predictions["rank"].shape == predictions["loss"].shape == (2, asked["data"]["num_test"])
    assert np.allclose(predictions["loss"], expected["loss"], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("framework", "num_gpus"), LARGEST)
def test_every_step_on_resident_input_trains_on_the_first_batch(run, framework, num_gpus):
    """A batch that a step gave away or changed, or another one, would give other updates."""
    first, resident = run(BACKENDS[0], 1, **RESIDENT), run(framework, num_gpus, **RESIDENT)
    assert resident.record["steps"] == 6 and resident.record["data_wait_s"] == 0
    assert relative_difference(resident.update, first.update) < UPDATES_NOISE
    assert relative_difference(resident.update, reference(run, "sgd").update) > 100 * UPDATES_NOISE
    assert len(resident.predictions["epoch"]) == 0, "random labels are not evaluated"


@pytest.mark.parametrize("framework", EXCHANGING)
def test_without_exchange_each_replica_follows_its_own_gradient(run, framework):
    """The mean of the replicas' gradients, or their sum where they divide by the global batch, is the whole batch's."""
    alone = run(framework, 2, **ALONE)
    updates = [
        {name: alone.initial_weights[name] - array for name, array in replica.items()} for replica in alone.replicas
    ]
    assert len(updates) == 2 and relative_difference(*updates) > 0.1
    whole = run(BACKENDS[0], 1, **UNCOMPRESSED["fp16"]).update
    total = {name: updates[0][name] + updates[1][name] for name in whole}
    means = [{name: array / parts for name, array in total.items()} for parts in (1, 2)]
    assert min(relative_difference(mean, whole) for mean in means) < FLOAT32_NOISE
    assert len(alone.predictions["epoch"]) == 0 and alone.record["eval_s"] == 0
    assert alone.record["settings"]["exchange"].startswith("none")


@pytest.mark.parametrize("framework", ON_TWO)
def test_with_exchange_all_replicas_have_the_same_weights(run, framework):
    replicas = run(framework, 2, **IN_SMALL_BATCHES).replicas
    assert len(replicas) == 2 and relative_difference(*replicas) < FLOAT32_NOISE


@pytest.mark.parametrize(("framework", "num_gpus"), LARGEST)
def test_each_process_has_the_seconds_that_it_measured(run, framework, num_gpus):
    record = run(framework, num_gpus, **AHEAD).record
    measured = [(process["rank"], process["measured_s"]) for process in record["processes"]]
    assert [rank for rank, _ in measured] == list(range(record["num_processes"]))
    assert 0 < max(seconds for _, seconds in measured) <= record["measured_s"] + 1e-6
    assert all(0 <= process["data_wait_s"] <= process["measured_s"] for process in record["processes"])


@pytest.mark.parametrize(("framework", "num_gpus"), LARGEST)
def test_every_framework_evaluates_by_the_statistics_of_the_batch_if_it_should(run, framework, num_gpus):
    """Each device normalises by its own 4 images, which are those of one device's batches, too."""
    reference, running = run(BACKENDS[0], 1, **BY_BATCH).predictions, run(BACKENDS[0], 1, **BY_RUNNING).predictions
    finished = run(framework, num_gpus, **BY_BATCH)
    assert np.allclose(finished.predictions["loss"], reference["loss"], rtol=1e-3, atol=1e-4)
    assert not np.allclose(running["loss"], reference["loss"], rtol=0.1)
    assert finished.record["spec"]["eval_batchnorm"] == "batch"


@pytest.mark.parametrize(("framework", "num_gpus"), LARGEST)
def test_the_record_names_versions_code_and_clocks(run, framework, num_gpus, monkeypatch):
    monkeypatch.chdir(ROOT)
    record = run(framework, num_gpus, **AHEAD).record
    assert record["versions"] and record["host"]["cpu_model"]
    met = [process["topology"] for process in record["processes"] if "topology" in process]
    places = met or [record["topology"]]
    for place in places:
        cores = [core for device in place["cores"] for core in device["cores"]]
        assert len(cores) == len(set(cores)) == len(place["cores"]) == num_gpus
    for clock in ("init_s", "compile_s", "eval_s", "wall_time_s"):
        assert record[clock] > 0
    assert record["init_s"] + record["compile_s"] + record["train_s"] + record["eval_s"] <= record["wall_time_s"]


STOCK_SETTINGS = {
    "pytorch_ddp": {"execution": "eager", "optimizer": "torch.optim.SGD, for-loop", "layout": "contiguous (NCHW)"},
    "pytorch_dp": {"execution": "eager", "optimizer": "torch.optim.SGD, for-loop"},
    "horovod_pytorch": {"optimizer": "torch.optim.SGD, for-loop", "exchange": "Horovod, gloo, compression none"},
    "horovod_tensorflow": {"execution": "tf.function", "exchange": "Horovod, gloo, compression none"},
    "horovod_keras": {"execution": "tf.function", "exchange": "Horovod, gloo, compression none"},
    "tensorflow_mirrored": {"execution": "tf.function"},
    "keras_mirrored": {"execution": "tf.function"},
    "tensorflow_multiworker": {"exchange": "MultiWorkerMirroredStrategy, RING"},
    "jax_sharding": {"execution": "jax.jit (XLA)", "optimizer": "optax.sgd, in the compiled step"},
    "mxnet_gluon": {
        "execution": "imperative",
        "optimizer": "mxnet.optimizer.SGD, fused, 4 parameters at a time, on the kvstore",
        "exchange": "kvstore device",
    },
    "chainer_mn": {"execution": "define by run", "exchange": "ChainerMN, NaiveCommunicator"},
}


@pytest.mark.parametrize(("framework", "num_gpus"), LARGEST)
def test_the_record_says_how_the_framework_ran(run, framework, num_gpus):
    """PyTorch's default implementation on CPUs is the loop. A variable of the user's shell is recorded."""
    settings = run(framework, num_gpus, **AHEAD).record["settings"]
    assert STOCK_SETTINGS[framework].items() <= settings.items()
    assert settings["OMP_NUM_THREADS"] == "1" and settings["XLA_FLAGS"] == COMPILE_SOON["XLA_FLAGS"]
    assert not {"RANK", "TF_CONFIG", "HOROVOD_RANK"} & settings.keys()


@pytest.mark.parametrize("framework", ["pytorch_ddp", "mxnet_gluon"])
def test_the_best_tier_is_another_path_and_the_record_shows_it(run, framework):
    settings = run(framework, tier="best", **AHEAD).record["settings"]
    stock = run(framework, 2, **AHEAD).record["settings"]
    expected = {"pytorch_ddp": "torch.optim.SGD, fused", "mxnet_gluon": "hybridized (static_alloc, static_shape)"}
    assert expected[framework] in settings.values() and expected[framework] not in stock.values()


@pytest.mark.parametrize(("framework", "num_gpus"), LARGEST)
def test_all_code_that_ran_is_an_input_of_the_run(run, framework, num_gpus, monkeypatch):
    monkeypatch.chdir(ROOT)
    executed = {f"{LIBRARY}/{path}" for path in run(framework, num_gpus, **AHEAD).record["code"]}
    frameworks, entry = f"{LIBRARY}/howmanygpus/measure/frameworks", FRAMEWORKS[framework]
    assert f"{frameworks}/{entry.family}/{entry.strategy}.py" in executed
    assert f"{frameworks}/{entry.family}/layers/conv.py" in executed
    unmeasured = set(map(str, list_unmeasured()))
    empty = {path for path in executed if read_code(Path(path)).is_empty}
    assert executed - empty - unmeasured <= set(collect_training_code(framework, "small_cnn"))


@pytest.mark.parametrize(("framework", "num_gpus"), LARGEST)
def test_a_loss_that_is_not_finite_is_an_outcome(run, framework, num_gpus):
    """The runs that follow in the same processes are those of the tests above."""
    finished = run(framework, num_gpus, **DIVERGING)
    assert finished.record["status"] == "diverged"
    assert finished.record["reason"].startswith("training loss is nan")


def change_by_compression(run, framework, compression, **rank) -> float:
    """Return the difference between the update of two devices and that of one, which has nothing to compress."""
    compressed, exact = compress(compression, **rank), UNCOMPRESSED[compression]
    return relative_difference(run(framework, 2, **compressed).update, run(BACKENDS[0], 1, **exact).update)


@pytest.mark.parametrize(("framework", "compression"), COMPRESSING)
def test_compressed_gradients_differ_slightly_from_uncompressed(run, framework, compression):
    difference = change_by_compression(run, framework, compression)
    assert FLOAT32_NOISE < difference < {"fp16": 2e-3, "powersgd": 0.5}[compression]


def test_powersgd_loses_more_with_fewer_columns(run):
    one, four = (change_by_compression(run, "pytorch_ddp", "powersgd", powersgd_rank=rank) for rank in RANKS)
    assert four < one


def test_images_are_normalised_as_the_run_says(run):
    usual, symmetric = (run(BACKENDS[0], 1, **NORMALIZED[name]) for name in ("data", "symmetric"))
    assert relative_difference(symmetric.update, usual.update) > 0.1
    assert symmetric.record["spec"]["normalization"] == "symmetric"
