"""Tokens of a shell, and those in addresses of a config, are in no file that runs, tables, answers and report leave."""

import json

import pytest

from helpers.shell_variables import PLANTED, TOKENS
from project import RUNS, Project, study

LEAVES = ("results", ".snakemake")
STEP = 'echo "{{\\"step\\": 1}}" >> $HOWMANYGPUS_REPORT'
SIGNED = "s1gned"
ADDRESS = f"'https://me:{SIGNED}@data.example/x.tar?X-Amz-Signature={SIGNED}&part=2'"
PROGRAMS = {
    "prints": f"env && env >&2; echo at $ALL_PROXY {ADDRESS}; {STEP}",
    "fails": f"env && echo no access with $HF_TOKEN at $ALL_PROXY {ADDRESS} >&2; exit 3",
    "misreports": 'echo "[\\"$HF_TOKEN\\"]" >> $HOWMANYGPUS_REPORT',
}


def program(command: str) -> dict:
    return {
        "program": {"command": command},
        "num_gpus": [1],
        "per_device_batch_size": [32],
        "warmup_steps": 1,
        "quality": {"thresholds": [0.9]},
    }


@pytest.fixture(scope="module")
def left(tmp_path_factory, prepared):
    """Return a project whose call had tokens in its shell. Some of its runs fail."""
    project = Project(tmp_path_factory.mktemp("secrets") / "project")
    project.take_prepared(prepared)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in TOKENS.items():
            patched.setenv(name, value)
        leave_all(project)
    return project


def leave_all(project: Project) -> None:
    project.write_config(small=study(), **{name: program(command) for name, command in PROGRAMS.items()})
    project.behave(dozing__base__gpus2="crash")
    project.snakemake(*RUNS, expect=1)
    project.snakemake("available")
    project.snakemake("available", "--report", "results/report.html")


def test_no_token_is_in_a_file_of_the_workflow(left):
    assert (left.folder / "results" / "report.html").exists()
    files = [path for name in LEAVES for path in (left.folder / name).rglob("*") if path.is_file()]
    found = {str(path.relative_to(left.folder)) for path in files if PLANTED.encode() in path.read_bytes()}
    assert found == set()
    log = left.read("results/logs/train/prints/prints/base/program_fp32_cpu_gpus1_batch32_repeat1.log")
    assert "HF_TOKEN=$HF_TOKEN\n" in log, "the program has the token, and its log names it"


def test_no_signature_of_an_address_in_the_config_is_in_the_results(left):
    """Snakemake's own folder has the command as it is, to compare it with that of a later call."""
    files = [path for path in (left.folder / "results").rglob("*") if path.is_file()]
    assert {str(path) for path in files if SIGNED.encode() in path.read_bytes()} == set()
    (record,) = left.folder.glob("results/runs/prints/*/*/*/run.json")
    shown = "'https://data.example/x.tar?X-Amz-Signature=...&part=2'"
    assert shown in json.loads(record.read_text())["spec"]["program"]["command"]
    assert {row["status"] for row in left.read_rows() if row["study"] == "prints"} == {"completed"}, "it is not stale"
