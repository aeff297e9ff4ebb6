"""A command that starts Python in a container serves as the interpreter of an environment."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hanging import HANG_S
from helpers.processes import kill_those_left
from howmanygpus.measure.launch.launch import LOCK_FOLDER
from project import ROOT, RUNS, study
from slurm.cluster import wait_for


@pytest.fixture
def contain(project, tmp_path, monkeypatch):
    """Return a function that makes a folder with bin/ the image of an environment, for a stand-in for Apptainer."""
    if shutil.which("bwrap") is None:
        pytest.skip("no containers: apt-get install --no-install-recommends bubblewrap")
    if subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"], capture_output=True).returncode:
        pytest.skip("bubblewrap may start no container here")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "apptainer").symlink_to(ROOT / "tests" / "fakes" / "apptainer")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    # The folder of the tests' lock is not in the container.
    monkeypatch.delenv(LOCK_FOLDER)

    def contain(environment: str, image: Path) -> str:
        command = f"apptainer exec --nv '{image}' python"
        machine = {"environments": {environment: {"python": command}}}
        (project.folder / "profiles" / "local" / "machine.yaml").write_text(yaml.safe_dump(machine))
        return command

    return contain


def test_a_run_trains_in_a_container(contain, environment_python, project, prepared):
    project.take_prepared(prepared)
    command = contain("pytorch-cpu", Path(environment_python("pytorch-cpu")).parents[1])
    project.write_config(small=study(frameworks=["pytorch_ddp"], num_gpus=[2], steps=8))
    project.snakemake(*RUNS)
    (path,) = project.folder.glob("results/environments/pytorch-cpu-*.json")
    record = json.loads(path.read_text())
    assert record["existing"]["python"] == command
    assert any(package.startswith("torch==") for package in record["packages"])
    run = json.loads(next((project.folder / "results" / "runs").rglob("run.json")).read_text())
    assert (run["status"], run["num_processes"], run["measured_steps"]) == ("completed", 2, 6)


def test_a_run_in_a_container_ends_with_the_shell_of_its_job(contain, project, prepared):
    project.take_prepared(prepared)
    contain("fake-cpu", Path(sys.prefix).resolve())
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    project.behave(sleeping="hang")
    call = project.start(*RUNS)
    attempts = project.folder / "results" / "attempts"
    wait_for(lambda: [*attempts.rglob("events.jsonl")], "the process of the run", attempts / "no log")
    started = [process for process in project.processes() if process.pid != call.pid]
    assert any("howmanygpus.measure.loop.train" in process.cmdline() for process in started)
    (shell,) = (process for process in started if process.name() == "bash")
    shell.kill()
    assert kill_those_left(started, timeout_s=HANG_S) == []
    call.communicate(timeout=HANG_S)
