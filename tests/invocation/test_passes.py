"""A call becomes its next pass, in the same process, if the Snakefile asked for one."""

import os
import subprocess
import sys

import pytest

from howmanygpus.invocation.passes import PassState
from project import ROOT

PROGRAM = """
import atexit, os, sys
sys.path.insert(0, {library!r})
sys.argv[0] = {name!r}
from howmanygpus.invocation import passes

atexit.register(print, "released its lock")
number, statuses = passes.begin_pass(), {statuses}
status = statuses[number - 1]
print("pass", number, os.getpid() == int(os.environ.setdefault("FIRST", str(os.getpid()))))
if number < len(statuses):
    print("is followed:", passes.ask_for_another(has_failed=status != 0))
sys.exit(status)
"""
"""A program in the place of Snakemake whose passes end with these statuses."""


def call(statuses: list[int], name: str = "snakemake") -> subprocess.CompletedProcess:
    text = PROGRAM.format(library=str(ROOT / "workflow" / "lib"), statuses=statuses, name=name)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("statuses", "expected"), [([0, 0, 0], 0), ([0, 1, 0], 1), ([1, 0, 0], 1), ([0, 0, 1], 1)])
def test_passes_share_a_process_and_the_call_has_their_worst_status(statuses, expected):
    ended = call(statuses)
    assert ended.returncode == expected, ended.stderr
    passes = [["pass 1 True", "is followed: True"], ["pass 2 True", "is followed: True"], ["pass 3 True"]]
    lines = [line for printed in passes for line in (*printed, "released its lock")]
    assert ended.stdout.splitlines() == lines, "what a pass does at its exit is done once, before the next one"


@pytest.mark.parametrize("name", ["own.py", "/own/__main__.py", "/snakemake/own.py"])
def test_another_program_that_calls_snakemake_is_not_started_again(name):
    assert call([0, 0], name).stdout.splitlines() == ["pass 1 True", "is followed: False", "released its lock"]


@pytest.mark.parametrize("name", ["/environment/bin/snakemake", "/site-packages/snakemake/__main__.py"])
def test_snakemake_is_started_again_as_a_program_and_as_a_module(name):
    assert call([0, 0], name).stdout.count("pass ") == 2


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
        PassState(frozenset(runs), frozenset(studies))
        for runs, studies in ((asked, undecided), (asked_then, undecided_then))
    )
    assert before.is_followed_by(after) == is_followed


SHELL = """
import os, sys
sys.path.insert(0, {library!r})
sys.argv[0] = {name!r}
from pathlib import Path
from howmanygpus.invocation import passes

print("started")
passes.leave_shell_behind()
print([os.environ.get(name) for name in ("PYTHONIOENCODING", "PYTHONPATH", "PYTHONUTF8")])
"""


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("snakemake", ["started", "started", "[None, None, '1']"]),
        ("own.py", ["started", "['ascii', '/nowhere', None]"]),
    ],
)
def test_a_command_starts_again_without_what_the_shell_sets_and_another_program_does_not(name, printed):
    text = SHELL.format(library=str(ROOT / "workflow" / "lib"), name=name)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUTF8"}
    environment |= {"PYTHONIOENCODING": "ascii", "PYTHONPATH": "/nowhere"}
    ended = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == printed
