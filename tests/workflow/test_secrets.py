"""Tokens in the shell of a call are in no file that its runs, tables, answers and report leave."""

import pytest

from project import RUNS, study
from shells import PLANTED, TOKENS

LEAVES = ("results", ".snakemake")
STEP = 'echo "{{\\"step\\": 1}}" >> $HOWMANYGPUS_REPORT'
PROGRAMS = {
    "prints": f"env && env >&2; echo at $ALL_PROXY; {STEP}",
    "fails": "env && echo no access with $HF_TOKEN at $ALL_PROXY >&2; exit 3",
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


@pytest.fixture
def left(project, prepared, monkeypatch):
    """Return a project whose call had tokens in its shell. Some of its runs fail."""
    project.take_prepared(prepared)
    for name, value in TOKENS.items():
        monkeypatch.setenv(name, value)
    project.write_config(small=study(), **{name: program(command) for name, command in PROGRAMS.items()})
    project.behave(dozing__base__gpus2="crash")
    project.snakemake(*RUNS, expect=1)
    project.snakemake("available")
    project.snakemake("available", "--report", "results/report.html")
    return project


def test_no_token_is_in_a_file_of_the_workflow(left):
    assert (left.folder / "results" / "report.html").exists()
    files = [path for name in LEAVES for path in (left.folder / name).rglob("*") if path.is_file()]
    found = {str(path.relative_to(left.folder)) for path in files if PLANTED.encode() in path.read_bytes()}
    assert found == set()
    log = left.read("results/logs/train/prints/prints/base/program_fp32_cpu_gpus1_batch32_repeat1.log")
    assert "HF_TOKEN=$HF_TOKEN\n" in log, "the program has the token, and its log names it"
