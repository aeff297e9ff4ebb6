"""In a job of SLURM, each process starts in the container of its node. A stand-in for srun starts them all here."""

import json
import os
import sys

import pytest

from helpers.messages import says
from helpers.specs import make_spec
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.host.slurm import JOB
from howmanygpus.measure.launch.launch import run_processes
from howmanygpus.measure.launch.launchers import build_command
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.site.environments.existing import starts_container
from howmanygpus.site.environments.find import find_launcher
from project import ROOT

SRUN = """#!{python}
import os, subprocess, sys
options = [word for word in sys.argv[1:] if word.startswith("--")]
command = sys.argv[1:]
while command[0].startswith("--"):
    command.pop(0)
values = dict(option.split("=", 1) for option in options if "=" in option)
nodes, tasks = int(values["--nodes"]), int(values["--ntasks"])
image = values.get("--container-image")
started = []
for rank in range(tasks):
    own = {{"SLURM_PROCID": rank, "SLURM_LOCALID": rank % (tasks // nodes), "SLURM_NTASKS": tasks}}
    own |= {{"SLURMD_NODENAME": f"node{{rank // (tasks // nodes)}}"}} | ({{"IN_CONTAINER": image}} if image else {{}})
    started.append(subprocess.Popen(command, env=os.environ | {{key: str(value) for key, value in own.items()}}))
sys.exit(max(process.wait() for process in started))
"""
APPTAINER = """#!/bin/bash
[[ $1 == exec && -n $SLURM_PROCID ]] || exit 7
while [[ $2 == -* ]]; do shift; done
export IN_CONTAINER=$2
shift 2
exec "$@"
"""
SEEN = """
import json, os, pathlib, sys
seen = {key: os.environ.get(key) for key in ("IN_CONTAINER", "SLURMD_NODENAME", "RANK", "WORLD_SIZE")}
pathlib.Path(sys.argv[1], os.environ["RANK"]).write_text(json.dumps(seen))
"""


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Return a function that writes the record of an environment in a container. srun and apptainer are pretended."""
    (tmp_path / "bin").mkdir()
    for name, text in (("srun", SRUN.format(python=sys.executable)), ("apptainer", APPTAINER)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "seen.py").write_text(SEEN)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT / "workflow" / "lib")]))
    monkeypatch.setenv(JOB, json.dumps({"nodes": ["node0", "node1"], "record": {"id": "1"}}))

    def write(command):
        path = tmp_path / "environment.json"
        existing = {"python": command, "modules": []}
        values = {"name": "pytorch-cpu", "python": str(tmp_path / "wrapped" / "python"), "python_version": "3.12.1"}
        path.write_text(json.dumps(values | {"existing": existing}))
        return path

    return write


SLURM = {"scheduler": "slurm", "bind_cores": False, "step_options": ["--gres=gpu:a100:{n}"]}


@pytest.mark.parametrize(
    "command",
    [
        f"apptainer exec --nv image.sif {sys.executable}",
        f"srun --partition=gpu --container-image=image.sif {sys.executable}",
    ],
    ids=["apptainer", "pyxis"],
)
def test_the_processes_of_two_nodes_start_in_their_container(record, tmp_path, command):
    python, placement = find_launcher(record(command), SLURM | {"step_options": []})
    assert python == sys.executable and placement["python_version"] == "3.12.1"
    spec = make_spec(num_gpus=4, num_nodes=2, cores_per_device=1, global_batch_size=4, launcher="per_device")
    attempt, seen = AttemptFolder(tmp_path / "attempt"), tmp_path / "seen"
    for folder in (attempt.path, seen):
        folder.mkdir()
    assert run_processes(spec, Placement(**placement), attempt, "seen", [str(seen)], 120) == 0
    found = [json.loads(path.read_text()) for path in sorted(seen.iterdir())]
    assert [each["RANK"] for each in found] == ["0", "1", "2", "3"]
    assert [each["SLURMD_NODENAME"] for each in found] == ["node0", "node0", "node1", "node1"]
    assert {each["IN_CONTAINER"] for each in found} == {"image.sif"} and {each["WORLD_SIZE"] for each in found} == {"4"}


def test_options_of_a_container_are_those_of_the_step(record):
    given = (
        "srun --account=project --container-image=a.sqsh --container-mounts=/data:/data,/{x} --view=default python -u"
    )
    _, placement = find_launcher(record(given), SLURM)
    placement = Placement(**placement)
    expected = [
        "--gres=gpu:a100:2",
        "--container-image=a.sqsh",
        "--container-mounts=/data:/data,/{x}",
        "--view=default",
    ]
    assert placement.describe_step(2) == expected and placement.python == ["python", "-u"]


@pytest.mark.parametrize(
    ("given", "is_container"),
    [
        ("apptainer exec --nv image.sif python", True),
        ("env APPTAINER_NV=1 /usr/bin/apptainer exec image.sif python", True),
        ("podman-hpc run --rm image python", True),
        ("uenv run prgenv -- python", True),
        ("srun --uenv=prgenv python", True),
        ("nice python", False),
        (sys.executable, False),
    ],
)
def test_a_command_that_starts_a_container_is_known_by_its_program(record, given, is_container):
    assert starts_container(given) == is_container
    python, placement = find_launcher(record(given), SLURM)
    assert (python == sys.executable, bool(placement.get("python"))) == (is_container, is_container)


def test_on_one_machine_the_launcher_is_in_the_container(record, tmp_path):
    python, placement = find_launcher(record("apptainer exec image.sif python"), {})
    assert python == str(tmp_path / "wrapped" / "python") and placement == {}


def test_mpirun_is_not_in_a_container_of_several_nodes():
    spec = make_spec(num_gpus=2, launcher="mpirun")
    with pytest.raises(ValueError) as raised:
        build_command(spec, Placement(**SLURM, python=["python"]), None, "m", [])
    assert says(str(raised.value), spec.framework, "mpirun", "environments")
