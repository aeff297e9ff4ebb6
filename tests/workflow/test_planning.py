"""Missing files are planned, whatever else is."""

import os
import subprocess
import sys

import pytest

from project import ROOT

SNAKEFILE = """
from benchplan.plugin import mend_planning

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
    (folder / "Snakefile").write_text(SNAKEFILE.format(mend=mend))
    (folder / "first.txt").touch()
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--forcerun", "first"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True, timeout=60)
    return {path.name for path in folder.glob("*.txt")}


@pytest.mark.parametrize(("mend", "number"), [("mend_planning()", 3), ("pass", 1)])
def test_files_behind_an_ancient_one_are_made(tmp_path, mend, number):
    """Where this fails without the mending, a newer Snakemake needs none."""
    assert len(run(tmp_path, mend)) == number
