"""Test what the job for many small runs requests, and the script that it runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from howmanygpus.config.errors import ConfigError
from howmanygpus.site.machine import read_machine
from howmanygpus.site.packing import choose_device, list_options, read_account, write_script
from project import ROOT

A100 = {
    **{"devices_per_node": 4, "max_nodes": 4, "cores_per_device": 8, "memory_per_device_mb": 1000},
    **{"partition": "gpu", "request": "gpu:a100:{n}", "constraint": "nvlink"},
    **{"qos": "x", "sbatch_options": "--reservation=y --nice=10"},
}


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a machine file with a device for each of its arguments, and reads it."""

    def write_and_read(**devices):
        path = tmp_path / "machine.yaml"
        path.write_text(yaml.safe_dump({"scheduler": "slurm", "devices": devices}))
        return read_machine(path, packed=True)

    return write_and_read


def ask(machine, account=None):
    return list_options(choose_device(machine, None), account, "12:00:00")


def test_a_job_requests_a_whole_node_as_the_machine_file_describes_it(read):
    options = ask(read(a100=A100), "lab")
    assert {"--partition=gpu", "--constraint=nvlink", "--gres=gpu:a100:4", "--account=lab", "--qos=x"} <= set(options)
    assert {"--nodes=1", "--exclusive", "--mem=0", "--cpus-per-task=32", "--time=12:00:00"} <= set(options)
    assert options[-2:] == ["--reservation=y", "--nice=10"]


@pytest.mark.parametrize(
    ("time_limit", "seconds"),
    [
        ("12:00:00", 600),
        ("00:10:00", 150),
        ("10", 150),
        ("10:00", 150),
        ("0-1", 600),
        ("1-00", 600),
        ("UNLIMITED", 600),
    ],
)
def test_a_short_job_is_not_ended_at_its_start(read, time_limit, seconds):
    options = list_options(choose_device(read(a100=A100), None), None, time_limit)
    assert f"--signal=B:TERM@{seconds}" in options


def test_a_job_on_a_shared_node_requests_its_share(read):
    request = "--gpus-per-node=a100-40:{n}"
    options = ask(read(a100=A100 | {"nodes": "shared", "request": request, "partition": None, "sbatch_options": ""}))
    assert {"--mem=4000", "--gpus-per-node=a100-40:4"} <= set(options)
    absent = ("--exclusive", "--gres", "--partition", "--account")
    assert not [option for option in options if option.startswith(absent)]


def test_a_device_must_be_named_among_several(read):
    machine = read(a100=A100, v100=A100 | {"devices_per_node": 2})
    with pytest.raises(ConfigError, match="devices: has a100, v100; name the device of the job by --device"):
        choose_device(machine, None)
    with pytest.raises(ConfigError, match=r"'v10' is no device of .*; did you mean v100"):
        choose_device(machine, "v10")
    assert choose_device(machine, "v100").devices_per_node == 2


@pytest.mark.parametrize(
    ("text", "account"),
    [
        ("default-resources: {slurm_account: lab, runtime: 60}", "lab"),
        ("default-resources: [slurm_account=lab]", "lab"),
        ("default-resources: {runtime: 60}", None),
        ("jobs: 1", None),
    ],
)
def test_the_account_comes_from_the_profile(tmp_path, text, account):
    (tmp_path / "config.yaml").write_text(text)
    assert read_account(tmp_path) == account


def submit(folder: Path, **variables) -> subprocess.CompletedProcess:
    """Call the script with the profile in a folder."""
    (folder / "machine.yaml").write_text(yaml.safe_dump({"scheduler": "slurm", "devices": {"a100": A100}}))
    script = [sys.executable, ROOT / "workflow" / "scripts" / "submit_packed.py", "--profile", folder, "--time", "1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib"), **variables}
    return subprocess.run(script, env=environment, capture_output=True, text=True)


def test_a_machine_without_sbatch_is_named_with_the_remedy(tmp_path):
    (tmp_path / "config.yaml").write_text("jobs: 1")
    # Snakemake's plugin asks it for programs.
    (tmp_path / "which").symlink_to(shutil.which("which"))
    refused = submit(tmp_path, PATH=str(tmp_path))
    assert refused.returncode == 1 and "Traceback" not in refused.stderr
    assert refused.stderr.startswith("submit_packed: sbatch is not on this machine, ")
    assert "; call this where jobs are submitted, such as a login node" in refused.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "config.yaml: No such file or directory; name an existing file"),
        ("a: [", "did not find expected node content; correct this line or the one before it"),
        ("- jobs", "config.yaml: the file has no keys at its top level; write the options of Snakemake"),
        (
            "default-resources: [runtime]",
            'config.yaml: default-resources[0]: "runtime" has no value; write it as NAME=',
        ),
        ("default-resources: a=b", 'config.yaml: default-resources: "a=b" has no names; write NAME: VALUE below it'),
    ],
)
def test_a_profile_that_cannot_be_read_is_refused_by_the_script(tmp_path, text, message):
    if text is not None:
        (tmp_path / "config.yaml").write_text(text)
    refused = submit(tmp_path)
    assert refused.returncode == 1 and refused.stderr.startswith("submit_packed: ") and message in refused.stderr


def test_options_of_sbatch_with_an_open_quote_are_refused_with_the_machine_file(read):
    with pytest.raises(
        ConfigError, match=r"devices.a100.sbatch_options: .* cannot be split into words: no closing quo"
    ):
        read(a100=A100 | {"sbatch_options": "--comment='mine"})


def test_snakemake_replaces_the_shell_and_gets_its_arguments():
    script = write_script(Path("profiles/slurm/machine.yaml"), ["--configfile", "my study.yaml"])
    assert script.splitlines()[1] == (
        f"exec {sys.executable} -m snakemake --configfile 'my study.yaml' --snakefile {ROOT}/Snakefile "
        f"--profile {ROOT}/profiles/local --config machine=profiles/slurm/machine.yaml packed=true"
    )
