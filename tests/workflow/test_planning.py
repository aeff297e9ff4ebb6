"""Jobs behind an ancient() file are planned if they have a reason of their own to run."""

from pathlib import Path

from project import run_snakefile

SNAKEFILE = """
from howmanygpus.snakemake_patches import planning

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
    """Files after a call that makes the first one again, which is an ancient() input of the second."""
    (folder / "first.txt").touch()
    run_snakefile(folder, SNAKEFILE.format(patch=patch), "--forcerun", "first", check=True)
    return {path.name for path in folder.glob("*.txt")}


def test_missing_files_behind_an_ancient_one_are_made(tmp_path):
    assert run(tmp_path, "planning.apply()") == {"first.txt", "second.txt", "third.txt"}


def test_snakemake_alone_does_not_make_them(tmp_path):
    """If this fails, Snakemake no longer needs the patch."""
    assert run(tmp_path, "pass") == {"first.txt"}
