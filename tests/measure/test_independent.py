"""Runs on one device each at the same time are the run on one device, and leave one honest record."""

import json

import numpy as np
import pytest

from howmanygpus.measure.launch.independent import find_folder, join_runs, take_device
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.measure.spec import INDEPENDENT

REQUEST = {
    **{"model": "small_cnn", "optimizer": {"learning_rate": 0.05, "momentum": 0.9}, "global_batch_size": 8},
    **{"epochs": 2, "prefetch": 2, "data": {"num_train": 25, "num_test": 13}, "random_flip": True},
}
ON_TWO = {"num_gpus": 2, "global_batch_size": 16, "independent": True, "launcher": INDEPENDENT}
BY_LAUNCHER = ("pytorch_ddp", "horovod_pytorch", "tensorflow_mirrored", "jax_sharding", "chainer_mn")
"""One framework for each way in which processes start otherwise."""


@pytest.mark.parametrize("framework", BY_LAUNCHER)
def test_each_device_does_the_run_on_one_device(framework, train_once):
    (alone,), (both,) = train_once(framework, [REQUEST]), train_once(framework, [REQUEST | ON_TWO])
    record = both.record
    assert record["status"] == "completed" and record["num_processes"] == len(record["devices"]) == 2
    assert record["images_seen"] == 2 * alone.record["images_seen"] and record["steps"] == alone.record["steps"]
    losses = [[event["loss"] for event in run.events if event["event"] == "window"] for run in (alone, both)]
    assert losses[0] and np.allclose(*losses, rtol=1e-5)
    expected = alone.final_weights
    assert all(np.allclose(array, expected[name], rtol=1e-4, atol=1e-6) for name, array in both.final_weights.items())
    assert np.array_equal(both.predictions["rank"], alone.predictions["rank"])
    assert [device["measured_s"] for device in record["devices"]].count(record["measured_s"]) == 1
    assert record["measured_s"] == max(device["measured_s"] for device in record["devices"])


def make_outcome(status="completed", measured_s=2.0, **changes) -> dict:
    described = {
        **{"status": status, "reason": "", "code": {}, "measured_s": measured_s, "measured_steps": 10, "steps": 12},
        **{"images_seen": 120, "wall_time_s": measured_s + 5, "train_s": measured_s + 1, "init_s": 3.0},
        **{"peak_memory_bytes": None, "num_processes": 1},
        "disturbance": {"other_cpu_frac": None, "other_gpu_processes": None},
    }
    return described | changes


def join(folder, *outcomes) -> dict | None:
    """Return the outcome of devices with these outcomes; None is a device that left none."""
    attempt = AttemptFolder(folder)
    for device, outcome in enumerate(outcomes):
        own = find_folder(attempt, device)
        own.path.mkdir()
        own.events.write_text(f"events of {device}\n")
        own.predictions_of(0).write_text(f"predictions of {device}")
        own.trace.mkdir()
        (own.trace / "steps.json").write_text(f"steps of {device}")
        if outcome is None:
            own.error_of(0).write_text("Traceback")
        else:
            own.outcome.write_text(json.dumps(outcome))
    join_runs(attempt, len(outcomes))
    return json.loads(attempt.outcome.read_text()) if attempt.outcome.exists() else None


def test_the_record_is_that_of_the_slowest_device_with_the_totals_of_all(tmp_path):
    disturbance = {"other_cpu_frac": 0.25, "other_gpu_processes": None}
    quick = make_outcome(peak_memory_bytes=7, disturbance=disturbance, wall_time_s=99.0)
    joined = join(tmp_path, quick, make_outcome(measured_s=4.0, peak_memory_bytes=5), make_outcome(measured_s=3.0))
    assert (tmp_path / "events.jsonl").read_text() == "events of 1\n"
    assert (tmp_path / "predictions.rank0.npz").read_text() == "predictions of 1"
    assert (tmp_path / "trace" / "steps.json").read_text() == "steps of 1"
    assert joined["measured_s"] == 4.0 and joined["train_s"] == 5.0
    assert joined["images_seen"] == 360 and joined["steps"] == 12 and joined["num_processes"] == 3
    assert joined["peak_memory_bytes"] == 7 and joined["wall_time_s"] == 99.0 and joined["disturbance"] == disturbance
    assert [device["images_per_s"] for device in joined["devices"]] == [50.0, 25.0, pytest.approx(100 / 3)]


@pytest.mark.parametrize("status", ["diverged", "suspended", "out_of_memory"])
def test_a_device_that_did_not_complete_is_named_in_the_reason(tmp_path, status):
    joined = join(tmp_path, make_outcome(), make_outcome(status, 1.0, reason="why"))
    assert (joined["status"], joined["reason"]) == (status, "device 1: why")
    assert (tmp_path / "events.jsonl").read_text() == "events of 1\n"


def test_a_device_without_memory_ends_all_and_is_an_outcome(tmp_path):
    ended = {"status": "out_of_memory", "reason": "7 GiB", "code": {}}
    assert join(tmp_path, None, ended) == ended | {"reason": "device 1: 7 GiB"}


@pytest.mark.parametrize("other", [make_outcome(), make_outcome("diverged", reason="why")])
def test_a_device_that_crashes_leaves_no_outcome_and_its_error(tmp_path, other):
    assert join(tmp_path, other, None) is None
    assert (tmp_path / "error.rank1.txt").read_text() == "Traceback" and not (tmp_path / "error.rank0.txt").exists()


def test_a_process_sees_its_own_device_alone(monkeypatch):
    bound = []
    monkeypatch.setattr("os.sched_setaffinity", lambda process, cores: bound.append(list(cores)))
    given = {"HOWMANYGPUS_ADDRESSES": "h:20000,h:20001", "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b", "RANK": "1"}
    given |= {
        "HOWMANYGPUS_CORES": "0,1;2,3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "",
        "MASTER_PORT": "",
    }
    environment = dict(given)
    monkeypatch.setattr("os.environ", environment)
    take_device(1, "cuda")
    assert environment == {
        **{"HOWMANYGPUS_ADDRESSES": "h:20001", "MASTER_ADDR": "h", "MASTER_PORT": "20001"},
        **{"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"},
        **{"CUDA_VISIBLE_DEVICES": "GPU-b", "HOWMANYGPUS_CORES": "2,3", "HOWMANYGPUS_DEVICE": "1"},
    }
    assert bound == [[2, 3]]
