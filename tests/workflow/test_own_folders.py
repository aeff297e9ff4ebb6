"""The example of a model in a folder goes through the workflow: weights, the gate, runs, and what reruns them."""

import json
import os
import re
import shutil

import pytest
import yaml

from project import ONLY_SGD, ROOT, ROWS, Project

MOST = min(3, len(os.sched_getaffinity(0)))
"""Devices of the largest layout that the gate observes on this machine."""


def read_study() -> dict:
    text = (ROOT / "docs" / "own_model.md").read_text()
    example = re.search(r"<!-- example: folder study -->\n```\w+\n(.*?)```", text, re.DOTALL)[1]
    return yaml.safe_load(example)["studies"]["mine"]


@pytest.fixture(scope="module")
def project(tmp_path_factory, environment_record):
    """Return a project in which the example of the documentation has been trained in PyTorch."""
    project = Project(tmp_path_factory.mktemp("folder") / "project", fakes=())
    folder = project.folder / "models" / "silu_net"
    folder.mkdir(parents=True)
    for name in ("parameters.py", "torch.py"):
        shutil.copy(ROOT / "examples" / "model_folder" / "silu_net" / name, folder / name)
    project.take_environment(environment_record("pytorch-cpu"))
    project.edit("workflow/lib/howmanygpus/gate/task.py", ONLY_SGD)
    project.write_config(own=read_study() | {"frameworks": ["pytorch_ddp"], "devices": ["cpu"], "epochs": 1})
    project.snakemake(*ROWS)
    return project


def test_a_folder_model_passes_the_gate_with_its_own_reference_and_trains(project):
    rows = project.read_rows()
    assert [(row["status"], row["model"], row["num_gpus"]) for row in rows] == [
        ("completed", "silu_net", "1"),
        ("completed", "silu_net", "2"),
    ]
    (path,) = (project.folder / "results" / "parity").glob("silu_net-*/pytorch_ddp_fp32_cpu-*.json")
    verdict = json.loads(path.read_text())
    checks = {(row["devices"], row["check"]) for row in verdict["checks"]}
    assert verdict["status"] == "passed" and {(1, "statistics"), (MOST, "statistics"), (MOST, "gradients")} <= checks
    record = json.loads(project.read(f"{rows[0]['run_dir']}/run.json"))
    assert "models/silu_net/torch.py" in record["code"] and record["spec"]["model_folder"] == "models/silu_net"


def test_editing_a_folder_model_reruns_only_runs_that_execute_the_file(project):
    file, folder = project.folder / "models" / "silu_net" / "torch.py", project.folder / "models" / "silu_net"
    text = file.read_text()
    (folder / "keras.py").write_text("import keras\n")
    file.write_text(f"# A comment.\n{text}")
    assert project.planned(*ROWS) == []
    file.write_text(text.replace("momentum=0.9", "momentum=0.8"))
    assert len(project.planned_runs(*ROWS)) == 2
    assert {"compute_reference", "observe_parity"} <= set(project.planned(*ROWS))
    file.write_text(text)


def test_a_torch_file_that_does_not_fit_its_parameters_stops_before_the_gate(project, tmp_path):
    copy = project.copy_to(tmp_path / "wrong")
    file = copy.folder / "models" / "silu_net" / "torch.py"
    file.write_text(file.read_text().replace("self.dense", "self.last"))
    printed = copy.snakemake(*ROWS, expect=1)
    assert "models/silu_net/torch.py: the model lacks dense.weight, which is dense.kernel of parameters.py; " in printed
    assert "rule observe_parity" not in copy.read_last_log()
