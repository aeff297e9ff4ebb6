"""A call becomes its next pass, in the same process, if the Snakefile asked for one."""

import subprocess
import sys

import pytest

from howmanygpus.call.passes import Standing
from project import ROOT

PROGRAM = """
import atexit, os, sys
sys.path.insert(0, {library!r})
from howmanygpus.call import passes

def main():
    number = passes.find_number()
    atexit.register(print, "cleaned up", number, flush=True)
    print("pass", number, os.getpid() == int(os.environ.setdefault("FIRST", str(os.getpid()))), flush=True)
    if number < {passes}:
        assert passes.ask_for_another()
    sys.exit({statuses}[number - 1])

passes.run_in_passes(main, [sys.executable, *sys.orig_argv[1:]])
"""


@pytest.mark.parametrize(("statuses", "expected"), [([0, 0, 0], 0), ([0, 1, 0], 1), ([1, 0, 0], 1), ([0, 0, 2], 2)])
def test_passes_share_a_process_and_the_worst_status_is_that_of_the_call(statuses, expected):
    text = PROGRAM.format(library=str(ROOT / "workflow" / "lib"), passes=len(statuses), statuses=statuses)
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert ended.returncode == expected, ended.stderr
    lines = [line for number in (1, 2, 3) for line in (f"pass {number} True", f"cleaned up {number}")]
    assert ended.stdout.splitlines() == lines, "what a pass does at its exit is done before the next one"


def test_the_message_of_a_refused_call_is_printed():
    text = PROGRAM.format(library=str(ROOT / "workflow" / "lib"), passes=1, statuses=["snakemake: refused"])
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "snakemake: refused\n")


@pytest.mark.parametrize(
    ("asked", "undecided", "asked_then", "undecided_then", "is_followed"),
    [
        ("a", "s", "ab", "s", True),
        ("a", "s", "ab", "", True),
        ("a", "s", "a", "", True),
        # Its steps failed, so that nothing was decided.
        ("a", "s", "a", "s", False),
        ("a", "s", "", "s", False),
        # Runs that were done again are decided on again.
        ("a", "", "ab", "", True),
        ("a", "", "a", "", False),
        # Another study is not a target of this call.
        ("a", "st", "a", "t", True),
        ("a", "t", "a", "t", False),
    ],
)
def test_another_pass_follows_new_runs_and_decided_studies(asked, undecided, asked_then, undecided_then, is_followed):
    before, after = (
        Standing(frozenset(runs), frozenset(studies))
        for runs, studies in ((asked, undecided), (asked_then, undecided_then))
    )
    assert before.is_followed_by(after) == is_followed
