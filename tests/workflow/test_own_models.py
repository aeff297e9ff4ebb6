"""Models in users' files go through the workflow: weights, gate, runs, and what reruns and stops them."""

import json
import os
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from project import ONLY_SGD, ROOT, ROWS, Project, study

NET = "own_net_8x8x1_classes10"
MOST = min(3, len(os.sched_getaffinity(0)))
"""Devices of the largest layout that the gate observes on this machine."""
ALONE = """

class Alone(PytorchDdp):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.network.require_backward_grad_sync = False


BACKEND = Alone
"""
"""Code appended to a strategy, by which its devices no longer exchange gradients."""
FRAMEWORKS = ["pytorch_ddp", "horovod_pytorch", "pytorch_dp", "jax_sharding"]


def own_study(**changes) -> dict:
    given = {"model": "net.py", "frameworks": FRAMEWORKS, "parity": "report", "steps": 4, "devices": ["cpu"]}
    return study(**given | changes)


@pytest.fixture(scope="module")
def project(tmp_path_factory, environment_record):
    """Return a project in which the examples in PyTorch and in Keras have been trained."""
    project = Project(tmp_path_factory.mktemp("own") / "project", fakes=())
    shutil.copy2(ROOT / "examples" / "model" / "pytorch_net.py", project.folder / "net.py")
    shutil.copy2(ROOT / "examples" / "model" / "keras_net.py", project.folder / "keras_net.py")
    for name in ("pytorch-cpu", "horovod-pytorch-cpu", "tensorflow-cpu"):
        project.take_environment(environment_record(name))
    project.edit("workflow/lib/howmanygpus/gate/task.py", ONLY_SGD)
    in_keras = own_study(model="keras_net.py", frameworks=["keras_mirrored"], num_gpus=[2])
    project.write_config(own=own_study(), in_keras=in_keras)
    project.snakemake(*ROWS)
    return project


def find_verdicts(project, network: str) -> list:
    """Return the verdicts on a network in tasks with local BatchNorm, whatever their optimizer."""
    return list((project.folder / "results" / "parity").glob(f"{network}_local_*/*-*.json"))


def read_verdicts(project, network: str = NET) -> dict[str, dict]:
    verdicts = [json.loads(path.read_text()) for path in find_verdicts(project, network)]
    return {verdict["framework"]: verdict for verdict in verdicts}


def test_every_strategy_of_the_family_trains_from_the_same_weights(project):
    rows = {(row["framework"], row["num_gpus"]): row for row in project.read_rows() if row["study"] == "own"}
    completed = {key for key, row in rows.items() if row["status"] == "completed"}
    assert completed == {(name, "1") for name in FRAMEWORKS[:3]} | {(name, "2") for name in FRAMEWORKS[:2]}, rows
    assert {rows["jax_sharding", count]["status"] for count in "12"} == {"unsupported"}
    assert rows["jax_sharding", "1"]["reason"] == "net.py is a model of PyTorch, and jax_sharding trains those of flax"
    assert {row["model"] for row in rows.values()} == {"net"}
    records = [json.loads(project.read(f"{rows[key]['run_dir']}/run.json")) for key in completed]
    assert len({record["weights_sha256"] for record in records}) == 1
    assert all(record["spec"]["model_file"] == "net.py" and "net.py" in record["code"] for record in records)


def test_the_gate_compares_strategies_and_numbers_of_devices(project):
    verdicts = read_verdicts(project)
    assert {name: verdict["status"] for name, verdict in verdicts.items()} == dict.fromkeys(FRAMEWORKS[:3], "passed")
    for name in FRAMEWORKS[:2]:
        checks = {(row["devices"], row["check"]) for row in verdicts[name]["checks"]}
        both = {"weights", "evaluation", "batches", "losses", "averaging", "gradients", "updates_sgd"}
        both |= {"statistics", "evaluation_after"}
        assert {(devices, check) for devices in (1, MOST) for check in both} <= checks
        assert {(MOST, check) for check in ("united", "exchange", "replicas")} <= checks


def test_a_model_in_keras_is_gated_and_trained_under_mirrored_strategy(project):
    """It needs nothing of Horovod for TensorFlow."""
    (row,) = (row for row in project.read_rows() if row["study"] == "in_keras")
    assert (row["status"], row["model"], row["num_gpus"]) == ("completed", "keras_net", "2")
    record = json.loads(project.read(f"{row['run_dir']}/run.json"))
    assert record["steps"] == 4 and "keras_net.py" in record["code"]
    (verdict,) = read_verdicts(project, NET.replace("net", "keras_net")).values()
    assert (verdict["status"], verdict["reason"]) == ("passed", "")
    checks = {(row["devices"], row["check"]) for row in verdict["checks"]}
    assert {(MOST, "averaging"), (MOST, "gradients"), (MOST, "updates_sgd"), (MOST, "replicas")} <= checks
    records = (project.folder / "results" / "environments").glob("*-cpu-*.json")
    built = {path.name.rpartition("-")[0] for path in records}
    assert built == {"pytorch-cpu", "horovod-pytorch-cpu", "tensorflow-cpu"}


def test_comments_and_places_rerun_nothing_and_constants_rerun_the_runs(project):
    text = project.read("net.py")
    (project.folder / "net.py").write_text(f"# A comment.\n{text}")
    assert project.planned(*ROWS) == []
    (project.folder / "models").mkdir()
    (project.folder / "net.py").rename(project.folder / "models" / "net.py")
    project.write_config(own=own_study(model="models/net.py"))
    assert project.planned(*ROWS) == []
    (project.folder / "models" / "net.py").write_text(text.replace("width: int = 16", "width: int = 12"))
    planned = project.planned(*ROWS)
    assert len([job for job in planned if "/" in job]) == 5
    assert {"initialize_own_weights", "compute_own_reference", "observe_parity"} <= set(planned)
    (project.folder / "net.py").write_text(text)
    project.write_config(own=own_study())


def test_runs_start_from_a_file_with_all_arrays(project, tmp_path):
    copy = project.copy_to(tmp_path / "given")
    drawn = load_file(copy.folder / "results" / "weights" / f"{NET}_seed1.safetensors")
    given = {name: array + 1 for name, array in drawn.items()}
    save_file(given, copy.folder / "mine.safetensors")
    copy.write_config(own=own_study(frameworks=["pytorch_ddp"], num_gpus=[1], init="mine.safetensors"))
    copy.snakemake("--until", "adapt_weights")
    (path,) = (copy.folder / "results" / "weights").glob(f"{NET}_seed1_from-*.safetensors")
    taken = load_file(path)
    assert all(np.array_equal(taken[name], given[name]) for name in drawn)
    lost = given.popitem()[0]
    save_file(given, copy.folder / "mine.safetensors")
    printed = copy.snakemake("--until", "adapt_weights", expect=1)
    assert f"mine.safetensors: the file lacks {lost}; it must have the arrays of results/weights/{NET}" in printed


def test_devices_that_exchange_nothing_fail_and_are_reported(project, tmp_path):
    copy = project.copy_to(tmp_path / "faulty")
    copy.edit("workflow/lib/howmanygpus/measure/frameworks/torch/ddp.py", ALONE)
    copy.write_config(own=own_study(frameworks=["pytorch_ddp"], num_gpus=[2]))
    shutil.rmtree(copy.folder / "results" / "parity" / "observed")
    for path in find_verdicts(copy, NET):
        path.unlink()
    copy.snakemake(*ROWS)
    (verdict,) = read_verdicts(copy).values()
    assert verdict["status"] == "failed" and f" on {MOST} devices: " in verdict["reason"]
    assert all(row["passed"] for row in verdict["checks"] if row["devices"] == 1)
    rows = [row for row in copy.read_rows() if row["study"] == "own"]
    assert {row["status"] for row in rows} == {"completed"}


def test_a_wrong_model_ends_before_the_gate_and_says_why(project, tmp_path):
    copy = project.copy_to(tmp_path / "wrong")
    text = copy.read("net.py")
    (copy.folder / "net.py").write_text(text.replace("nn.Linear(width, num_classes)", "nn.Linear(width, 7)"))
    printed = copy.snakemake(*ROWS, expect=1)
    assert "net.py: the model returned (2, 7) of float32 for 2 images; return float logits (2, 10)" in printed
    begun = copy.read_last_log()
    assert "rule observe_parity" not in begun and "rule compute_own_reference" not in begun
    (copy.folder / "net.py").write_text(text.replace("def build", "def make"))
    assert 'studies.own.model: "net.py" has no function build, only make' in copy.snakemake("-n", *ROWS, expect=1)
