"""A program of a user on GPUs, from the plan to the record, on a machine whose GPUs only NVML knows."""

import csv
import json
import shutil
import subprocess

import pytest

from project import FAKES, RUNS, Project

GPUS = ["GPU-11111111-pretended", "GPU-22222222-pretended"]
SCRIPT = """
env | grep ^CUDA_ | sort > "seen_$1"
for step in 1 2 3 4 5 6; do sleep 0.5; echo "step $step of 6"; done
echo "epoch 1 accuracy 0.5"
"""
PATTERNS = [r"step (?P<step>\d+) of", r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>\S+)"]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with a run on one GPU, the user having chosen the second, and one on both."""
    if (compiler := shutil.which("gcc")) is None:
        pytest.skip("there is no gcc to compile NVML's stand-in with")
    folder = tmp_path_factory.mktemp("gpus")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, FAKES / "pretend_nvml.c"], check=True)
    project = Project(folder / "project", fakes=())
    (project.folder / "script.sh").write_text(SCRIPT)
    program = {"command": "bash script.sh {num_gpus}", "start": "once", "report": PATTERNS, "files": ["script.sh"]}
    project.write_config(gpus={"program": program, "num_gpus": [1, 2], "devices": ["cuda"], "warmup_steps": 2})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(folder))
        patch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
        # The linker reads LD_LIBRARY_PATH when a process starts, so that a fork would not see it.
        call = project.start(*RUNS)
        printed = call.communicate()[0]
    assert call.returncode == 0, printed[-4000:]
    return project


def read_run(project, num_gpus):
    (path,) = project.folder.glob(f"results/runs/gpus/**/*_gpus{num_gpus}_*/run.json")
    return path.parent, json.loads(path.read_text())


@pytest.mark.parametrize("num_gpus", [1, 2])
def test_program_telemetry_and_record_mean_the_same_gpus(project, num_gpus):
    chosen = GPUS[::-1][:num_gpus]
    folder, record = read_run(project, num_gpus)
    seen = dict(line.split("=", 1) for line in project.read(f"seen_{num_gpus}").splitlines())
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["CUDA_DEVICE_ORDER"]) == (",".join(chosen), "PCI_BUS_ID")
    assert record["host"]["gpu_uuids"] == [gpu["uuid"] for gpu in record["topology"]["gpus"]] == chosen
    assert (record["device_model"], record["host"]["driver_version"]) == ("Pretended GPU", "580.0")
    assert record["disturbance"]["other_gpu_processes"] is None, "an old driver does not tell"
    with open(folder / "telemetry.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["device"] != "host"]
    assert {row["device"]: row["power_w"] for row in rows} == {
        uuid: {GPUS[0]: "300.023", GPUS[1]: "300.101"}[uuid] for uuid in chosen
    }


@pytest.mark.parametrize("num_gpus", [1, 2])
def test_the_state_of_the_runs_own_gpus_is_in_the_record(project, num_gpus):
    """This driver gives little, and no environment with PyTorch is there to measure the GPUs."""
    _, record = read_run(project, num_gpus)
    state = record["health"]
    assert [gpu["uuid"] for gpu in state["gpus"]] == GPUS[::-1][:num_gpus]
    assert {gpu["memory_free_gib"] for gpu in state["gpus"]} == {79.0}
    assert {"temperature_c", "uncorrected_errors", "processes"} <= set(state["missing"][GPUS[1]])
    assert record["reference_kernel"]["nodes"] == [] and "PyTorch" in record["reference_kernel"]["problem"]
