"""
Every backend does the same work: the same weights, batches, gradients, updates and evaluations, on one device and two.

Runs go through the launcher and the real training path; a gradient is read off one step of plain sgd with rate 1.
"""

import numpy as np
import pytest

from benchplan.code import training_code
from benchplan.frameworks import FRAMEWORKS
from project import ROOT
from trainbench.initialization import draw_weights
from trainbench.models.small_cnn.parameters import parameters
from training.launching import BACKENDS, train

DEVICES = (1, 2)
ON_TWO = [framework for framework in BACKENDS if FRAMEWORKS[framework].max_devices.get("cpu", 2) >= 2]
CASES = [
    (framework, num_gpus) for framework in BACKENDS for num_gpus in DEVICES if num_gpus == 1 or framework in ON_TWO
]
LARGEST_CASES = [(framework, 2 if framework in ON_TWO else 1) for framework in BACKENDS]
ONE_STEP = {"epochs": None, "steps": 1, "random_flip": True, "random_crop_padding": 1}
PLAIN_SGD = {"learning_rate": 1.0, "momentum": 0.0}

FLOAT32_NOISE = 2e-5
"""Relative; float32 sums in another order, seen up to 3e-6. A missing average is off by about 1."""
UPDATES_NOISE = 5e-4
"""Relative, after several steps, in which differences of the first grow; another momentum rule is off by 1e-1."""


def environment_of(framework: str) -> str:
    return FRAMEWORKS[framework].environments["cpu"]


@pytest.fixture(scope="session")
def run(environment_python, tmp_path_factory):
    """A function that trains once per distinct request and remembers the result."""
    done = {}

    def get(framework, num_gpus=1, **changes):
        key = repr((framework, num_gpus, sorted(changes.items(), key=repr)))
        if key not in done:
            folder = tmp_path_factory.mktemp(f"{framework}{num_gpus}_")
            python = environment_python(environment_of(framework))
            done[key] = train(python, folder, framework, num_gpus=num_gpus, global_batch_size=8, **changes)
            assert done[key].exit_status == 0, done[key].output[-3000:]
        return done[key]

    return get


def relative_difference(first: dict, second: dict) -> float:
    """Largest over the arrays of max|a - b| / max|b|."""
    assert first.keys() == second.keys()
    return max(np.abs(first[name] - second[name]).max() / (np.abs(second[name]).max() + 1e-12) for name in second)


def reference_gradient(run) -> dict:
    return run(BACKENDS[0], 1, optimizer=PLAIN_SGD, **ONE_STEP).update


@pytest.mark.parametrize(("framework", "num_gpus"), CASES)
def test_weights_arrive_bit_for_bit(run, framework, num_gpus):
    finished = run(framework, num_gpus, optimizer=PLAIN_SGD, **ONE_STEP)
    expected = draw_weights(parameters((6, 6, 1), 10), seed=1)
    assert finished.initial_weights.keys() == expected.keys()
    assert all(np.array_equal(finished.initial_weights[name], expected[name]) for name in expected)


@pytest.mark.parametrize("framework", ON_TWO)
def test_two_workers_with_half_a_batch_have_the_gradient_of_one_with_the_whole(run, framework):
    one, two = (run(framework, num_gpus, optimizer=PLAIN_SGD, **ONE_STEP).update for num_gpus in DEVICES)
    assert max(np.abs(array).max() for array in one.values()) > 1e-3
    assert relative_difference(two, one) < FLOAT32_NOISE


@pytest.mark.parametrize("framework", BACKENDS[1:])
def test_backends_have_the_same_gradient_and_so_the_same_batch(run, framework):
    gradient = run(framework, 1, optimizer=PLAIN_SGD, **ONE_STEP).update
    assert relative_difference(gradient, reference_gradient(run)) < FLOAT32_NOISE


def test_another_batch_would_be_noticed(run):
    without_flip = run(BACKENDS[0], 1, optimizer=PLAIN_SGD, **{**ONE_STEP, "random_flip": False}).update
    assert relative_difference(without_flip, reference_gradient(run)) > 100 * FLOAT32_NOISE


OPTIMIZERS = {
    "sgd": {
        "learning_rate": 0.05,
        "momentum": 0.9,
        "weight_decay": 1e-3,
        "lr_warmup_epochs": 1,
        "lr_schedule": "cosine",
    },
    "adam": {"name": "adam", "learning_rate": 0.01, "weight_decay": 1e-3, "epsilon": 1e-3},
}


def two_epochs(optimizer: str, num_test: int) -> dict:
    """Of three steps, with a rest of the training images that makes no batch.

    Of other images one may lie where rounding decides whether a ReLU passes it, which shows as 5e-3.
    """
    return {"optimizer": OPTIMIZERS[optimizer], "epochs": 2, "data": {"num_train": 25, "num_test": num_test}}


RUNS = {"sgd": two_epochs("sgd", 16), "adam": two_epochs("adam", 13)}
AHEAD = two_epochs("sgd", 13) | {"prefetch": 2, "eval_devices": "first", "eval_batch_size": 5}
IN_SMALL_BATCHES = RUNS["adam"] | {"prefetch": 2, "eval_batch_size": 3}
TRAINED = [(*case, "sgd", RUNS["sgd"]) for case in CASES]
TRAINED += [(*case, *how) for case in LARGEST_CASES for how in (("adam", IN_SMALL_BATCHES), ("sgd", AHEAD))]


@pytest.mark.parametrize(("framework", "num_gpus", "optimizer", "asked"), TRAINED)
def test_updates_agree_over_several_steps_with_a_changing_rate(run, framework, num_gpus, optimizer, asked):
    first, second = run(BACKENDS[0], 1, **RUNS[optimizer]), run(framework, num_gpus, **asked)
    assert first.record["steps"] == second.record["steps"] == 6
    assert second.record["images_seen"] == 2 * 24, "the incomplete batch of each epoch is dropped"
    assert relative_difference(second.update, first.update) < UPDATES_NOISE


@pytest.mark.parametrize(("framework", "num_gpus", "optimizer", "asked"), TRAINED)
def test_every_test_image_is_evaluated_once_whoever_predicts(run, framework, num_gpus, optimizer, asked):
    """In batches that the images fill, and in others that they do not, where a device may have none."""
    predictions, num_test = run(framework, num_gpus, **asked).predictions, asked["data"]["num_test"]
    reference = run(BACKENDS[0], 1, **two_epochs(optimizer, num_test)).predictions
    assert predictions["epoch"].tolist() == [1, 2]
    assert predictions["rank"].shape == predictions["loss"].shape == (2, num_test)
    assert np.allclose(predictions["loss"], reference["loss"], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("framework", [name for name in BACKENDS if "bf16" in FRAMEWORKS[name].precisions["cpu"]])
def test_bf16_is_another_arithmetic_near_fp32(run, framework):
    request = {"optimizer": PLAIN_SGD, **ONE_STEP}
    difference = relative_difference(run(framework, 1, precision="bf16", **request).update, reference_gradient(run))
    assert 1e-4 < difference < 0.2, "bf16 has 8 bits of mantissa"


@pytest.mark.parametrize("framework", BACKENDS)
def test_the_record_names_versions_code_and_clocks(run, framework, monkeypatch):
    monkeypatch.chdir(ROOT)
    record = run(framework, 1, optimizer=PLAIN_SGD, **ONE_STEP).record
    assert record["versions"] and record["host"]["cpu_model"]
    for clock in ("init_s", "compile_s", "eval_s", "wall_time_s"):
        assert record[clock] > 0
    assert record["init_s"] + record["compile_s"] + record["train_s"] + record["eval_s"] <= record["wall_time_s"]


@pytest.mark.parametrize("framework", BACKENDS)
def test_all_code_that_ran_is_an_input_of_the_run(run, framework, monkeypatch):
    monkeypatch.chdir(ROOT)
    executed = {f"workflow/lib/{path}" for path in run(framework, 1, optimizer=PLAIN_SGD, **ONE_STEP).record["code"]}
    assert f"workflow/lib/trainbench/backends/{framework}.py" in executed
    empty = {path for path in executed if not (ROOT / path).stat().st_size}
    assert executed - empty <= set(training_code(framework, "small_cnn"))


@pytest.mark.parametrize("framework", BACKENDS)
def test_a_loss_that_is_not_finite_is_an_outcome(run, framework):
    finished = run(framework, 1, optimizer={"learning_rate": 1e20}, epochs=3)
    assert finished.record["status"] == "diverged"
    assert finished.record["reason"].startswith("training loss is nan")


@pytest.mark.parametrize(("framework", "num_gpus"), LARGEST_CASES)
def test_prefetching_changes_no_batch(run, framework, num_gpus):
    plain, ahead = (run(framework, num_gpus, **request) for request in (RUNS["sgd"], AHEAD))
    assert ahead.record["host_to_device_gib_per_s"] is None, "the device is the host"
    assert relative_difference(ahead.update, plain.update) < 1e-6


@pytest.mark.parametrize("framework", [name for name in BACKENDS if FRAMEWORKS[name].launcher == "horovodrun"])
def test_horovod_by_mpi_does_what_it_does_by_gloo(run, framework):
    request = {"optimizer": PLAIN_SGD, **ONE_STEP}
    gloo, mpi = (run(framework, 2, horovod_controller=how, **request).update for how in ("gloo", "mpi"))
    assert relative_difference(mpi, gloo) < FLOAT32_NOISE


COMPRESSING = [(name, how) for name, entry in FRAMEWORKS.items() for how in entry.compressions]
NOT_COMPRESSED_AT_FIRST = 2
"""Steps of powersgd."""


@pytest.mark.parametrize(("framework", "compression"), COMPRESSING)
def test_compressed_gradients_are_others_near_those_that_are_not(run, framework, compression):
    request = {"optimizer": PLAIN_SGD, **ONE_STEP}
    if compression == "powersgd":
        request |= {"optimizer": PLAIN_SGD | {"learning_rate": 0.01}, "steps": NOT_COMPRESSED_AT_FIRST + 1}
    plain = run(framework, 2, **request).update
    compressed = run(framework, 2, gradient_compression=compression, powersgd_rank=4, **request).update
    difference = relative_difference(compressed, plain)
    assert 1e-6 < difference < {"fp16": 2e-3, "powersgd": 0.5}[compression]


def test_powersgd_loses_more_with_fewer_columns(run):
    request = {"optimizer": PLAIN_SGD | {"learning_rate": 0.01}, "epochs": None, "steps": NOT_COMPRESSED_AT_FIRST + 1}
    plain = run("pytorch_ddp", 2, **request).update
    one, four = (
        relative_difference(
            run("pytorch_ddp", 2, gradient_compression="powersgd", powersgd_rank=rank, **request).update, plain
        )
        for rank in (1, 4)
    )
    assert four < one
