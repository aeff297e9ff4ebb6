"""Jobs downstream of an ancient() file are planned if they have a reason of their own to run."""

from pathlib import Path

from project import LISTED, RUNS, run_snakefile, study

SNAKEFILE = """
from howmanygpus.invocation import patches

{patch}

rule all:
    input: "third.txt"

rule first:
    output: "first.txt"
    shell: "touch {{output}}"

rule second:
    input: ancient("first.txt")
    output: "second.txt"
    shell: "touch {{output}}"

rule third:
    input: "second.txt"
    output: "third.txt"
    shell: "touch {{output}}"
"""


def run(folder: Path, patch: str) -> set[str]:
    """Return the files after a call that makes the first one again, which is an ancient() input of the second."""
    (folder / "first.txt").touch()
    run_snakefile(folder, SNAKEFILE.format(patch=patch), "--forcerun", "first", check=True)
    return {path.name for path in folder.glob("*.txt")}


def test_missing_files_behind_an_ancient_one_are_made(tmp_path):
    assert run(tmp_path, "patches.apply()") == {"first.txt", "second.txt", "third.txt"}


def test_snakemake_alone_does_not_make_them(tmp_path):
    """If this fails, Snakemake no longer needs the patch."""
    assert run(tmp_path, "pass") == {"first.txt"}


GATE = ("--forcerun", "leave_unchecked")
UNPATCHED = "\n\ndef apply(): pass\n"


def test_an_unchecked_verdict_matches_one_rule(project):
    """Snakemake prints an exception, which costs planning time, for each further rule that matches and fails."""
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    printed = project.snakemake("--dry-run", *LISTED, *RUNS)
    assert "leave_unchecked" in printed
    assert "Exception" not in printed


def test_a_changed_setting_is_noticed_beside_a_changed_gate(project):
    """The verdict is an ancient() input of `train`, so that a changed gate alone reruns no training."""
    values = {"frameworks": ["sleeping"], "num_gpus": [1]}
    project.write_config(small=study(**values))
    project.snakemake(*RUNS)
    assert project.planned(*RUNS, *GATE) == ["leave_unchecked"]
    project.write_config(small=study(**values, steps=30))
    run = "small/sleeping/base/arrays_fp32_cpu_gpus1_batch64_repeat1"
    assert project.planned(*RUNS, *GATE) == ["leave_unchecked", run]
    project.edit("workflow/lib/howmanygpus/invocation/patches.py", UNPATCHED)
    assert project.planned(*RUNS, *GATE) == ["leave_unchecked"], "Snakemake no longer needs the patch"
