"""The batch script of the recommendation requests what the study's own jobs do, and starts a program on all devices."""

import subprocess
from pathlib import Path

import pytest
import yaml

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


@pytest.mark.parametrize("launcher", STARTS)
def test_each_launcher_has_lines_that_bash_understands(launcher, machine):
    text = make_batch_script(SPEC | {"launcher": launcher}, 60.0, machine)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert "train.py" in text and "{" not in text


def test_a_program_of_the_user_has_its_own_command(machine):
    program = {"command": "python mine.py --gpus {num_gpus}\n", "start": "per_node"}
    text = make_batch_script(SPEC | {"program": program}, 60.0, machine)
    assert text.endswith("# the command of the study, started per_node\npython mine.py --gpus {num_gpus}\n")


def test_the_script_of_a_run_requests_its_job_and_calls_the_step_of_the_workflow(tmp_path):
    requested = {"nodes": 2, "cpus_per_task": 8, "gres": "gpu:a100:4", "mem_mb": 240000, "runtime": 30}
    requested |= {"tasks": None, "slurm_partition": None, "constraint": None, "qos": None, "slurm_extra": "--exclusive"}
    folder, command = tmp_path / "my project", ["workflow/scripts/train.py", "--settings", '{"steps": 4}']
    text = make_run_script("s/pytorch_ddp/base/run1", requested, command, folder, Path("results/logs/run1.log"))
    options = [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]
    assert {"--nodes=2", "--gres=gpu:a100:4", "--time=30", "--exclusive", f"'--chdir={folder}'"} < set(options)
    assert not any(option.startswith(("--partition", "--ntasks", "--qos")) for option in options)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert text.splitlines()[-1].endswith("""/python workflow/scripts/train.py --settings '{"steps": 4}'""")
    assert "snakemake" not in text
