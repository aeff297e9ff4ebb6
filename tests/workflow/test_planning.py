"""Missing files are planned, whatever else is."""

import pytest

from project import run_snakefile

SNAKEFILE = """
from howmanygpus.snakemake_patches.plugin import mend_planning

{mend}

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


def run(folder, mend: str) -> set[str]:
    """Files after a call that makes the first one again, which the others take as it is."""
    (folder / "first.txt").touch()
    run_snakefile(folder, SNAKEFILE.format(mend=mend), "--forcerun", "first", check=True)
    return {path.name for path in folder.glob("*.txt")}


@pytest.mark.parametrize(("mend", "number"), [("mend_planning()", 3), ("pass", 1)])
def test_files_behind_an_ancient_one_are_made(tmp_path, mend, number):
    """Where this fails without the mending, a newer Snakemake needs none."""
    assert len(run(tmp_path, mend)) == number
