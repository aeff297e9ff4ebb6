"""The batch script of the recommendation requests what the study's own jobs do, and starts a program on all devices."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from howmanygpus.measure.spec import INDEPENDENT
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.batch_script import STARTS, make_batch_script, make_run_script
from howmanygpus.site.machine import read_machine

DEVICE = {"devices_per_node": 4, "max_nodes": 2, "cores_per_device": 8, "memory_per_device_mb": 60000}
DEVICE |= {"compute_capability": "8.0", "partition": "gpu", "request": "gpu:a100:{n}", "nodes": "exclusive"}
DEVICE |= {"sbatch_options": "--reservation='two words'", "constraint": "nvlink"}
SPEC = {"study": "s", "framework": "pytorch_ddp", "device": "a100", "num_gpus": 8, "num_nodes": 2}
SPEC |= {"per_device_batch_size": 64, "launcher": "per_device", "cores_per_device": 8}


@pytest.fixture
def machine(tmp_path):
    path = tmp_path / "machine.yaml"
    path.write_text(yaml.safe_dump({"scheduler": "slurm", "devices": {"a100": DEVICE}}))
    return read_machine(path)


def test_it_requests_what_the_machine_file_says(machine):
    text = make_batch_script(SPEC, 3600.0, machine)
    options = [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]
    assert options[:7] == [
        *("--job-name=s", "--nodes=2", "--cpus-per-task=8", "--gres=gpu:a100:4", "--mem=240000M"),
        *("--partition=gpu", "--constraint=nvlink"),
    ]
    assert {"--exclusive", "--ntasks-per-node=4", "'--reservation=two words'"} <= set(options)
    assert f"--time={90 + machine.slurm['overhead_min']}" in options, "half as long again as was measured"


def test_the_account_that_is_charged_for_the_study_is_charged_for_the_script(machine):
    assert "#SBATCH --account=lab\n" in make_batch_script(SPEC, 60.0, machine, account="lab")
    assert "--account" not in make_batch_script(SPEC, 60.0, machine)


@pytest.mark.parametrize("launcher", STARTS)
def test_each_launcher_has_lines_that_bash_understands(launcher, machine):
    text = make_batch_script(SPEC | {"launcher": launcher}, 60.0, machine)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert "train.py" in text and "{" not in text


def test_every_launcher_that_a_run_can_have_starts_a_program():
    assert set(STARTS) == {entry.launcher for entry in FRAMEWORKS.values()} | {INDEPENDENT}


COMMAND = "python mine.py --gpus {num_gpus} --model {model} --at {rendezvous} --note '{{it}}'\n"


def make_program(start, launcher, **program):
    given = {"command": COMMAND, "start": start, "axes": {"model": "a b"}, "modules": [], "container": None}
    names = {"dataset": "own_data", "model": "mine", "model_options": {}, "variant": "base", "input": "program"}
    names |= {"precision": "fp32", "device_kind": "cuda", "accumulate": 1, "global_batch_size": 512, "repeat": 1}
    names |= {"seed": 0, "family": "", "strategy": "", "warmup_steps": 5, "launcher": launcher}
    return SPEC | names | {"program": given | program}


@pytest.mark.parametrize("start", ["once", "per_node", "per_device", "mpirun"])
def test_the_command_of_a_program_is_filled_and_started_as_in_the_study(start, machine, tmp_path):
    """srun and mpirun are programs that run the command once, as the process with rank 5 of node 1."""
    launcher = {"once": "plain"}.get(start, start)
    nodes = {"num_gpus": 4, "num_nodes": 1} if start == "once" else {}
    text = make_batch_script(make_program(start, launcher) | nodes, 60.0, machine)
    assert "{" not in text.replace("{it}", "") and f", model a b, {4 if start == 'once' else 8} x a100, " in text
    fake = tmp_path / "bin"
    fake.mkdir()
    for name, run in {
        "srun": 'while [[ $1 == -* ]]; do shift; done; exec "$@"',
        "mpirun": 'while [[ $1 != bash ]]; do shift; done; exec "$@"',
        "scontrol": "echo n1; echo n2",
        "python": 'echo "$@" rank=$RANK local=$LOCAL_RANK world=$WORLD_SIZE node=$NODE_RANK of=$LOCAL_WORLD_SIZE',
    }.items():
        (fake / name).write_text(f"#!/bin/bash\n{run}\n")
        (fake / name).chmod(0o755)
    variables = {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8", "SLURM_NODEID": "1"}
    variables |= {"SLURM_JOB_ID": "12007"}
    variables |= {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "8"}
    path = f"{fake}:{os.environ['PATH']}"
    done = subprocess.run(["bash"], input=text, text=True, capture_output=True, env={"PATH": path} | variables)
    count = 4 if start == "once" else 8
    ranks = {
        "once": "rank= local= world= node= of=",
        "per_node": "rank=5 local=1 world=8 node=1 of=1",
    }.get(start, "rank=5 local=1 world=8 node=1 of=4")
    assert done.stdout == f"mine.py --gpus {count} --model a b --at n1:20007 --note {{it}} {ranks}\n", done.stderr


def test_a_program_has_its_modules_and_its_container(machine):
    own = {"modules": ["cuda/12"], "container": "my image.sif"}
    text = make_batch_script(make_program("per_device", "per_device", **own), 60.0, machine)
    assert "module load cuda/12" in text and "apptainer exec --nv" in text and "my image.sif" in text
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_the_script_of_a_run_requests_its_job_and_calls_the_step_of_the_workflow(tmp_path):
    requested = {"nodes": 2, "cpus_per_task": 8, "gres": "gpu:a100:4", "mem_mb": 240000, "runtime": 30}
    requested |= {"tasks": None, "slurm_partition": None, "constraint": None, "qos": None, "slurm_extra": "--exclusive"}
    requested |= {"slurm_account": "lab"}
    folder, command = tmp_path / "my project", ["workflow/scripts/train.py", "--settings", '{"steps": 4}']
    text = make_run_script("s/pytorch_ddp/base/run1", requested, command, folder, Path("results/logs/run1.log"))
    options = [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]
    assert {"--nodes=2", "--gres=gpu:a100:4", "--time=30", "--exclusive", f"'--chdir={folder}'"} < set(options)
    assert "--account=lab" in options
    assert not any(option.startswith(("--partition", "--ntasks", "--qos")) for option in options)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert text.splitlines()[-1].endswith("""/python workflow/scripts/train.py --settings '{"steps": 4}'""")
    assert "snakemake" not in text
