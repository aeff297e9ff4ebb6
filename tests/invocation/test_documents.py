"""
Command lines in documents, comments and messages work as they are written.

Several options of Snakemake take every word that follows, such as `--configfile` and `--logger`. A target must stand
before all options, or after `--`.
"""

import argparse
import re
import shlex
from functools import cache

import pytest
from snakemake.cli import get_argument_parser

from howmanygpus.invocation.closing_message import describe_end, describe_success, repeat_call
from project import ROOT

READ = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "Snakefile")
FOLDERS = ("config", "profiles", "docs", "examples", "workflow", "benchmarks")
SUFFIXES = (".md", ".yaml", ".py", ".smk", ".rst", ".sbatch")
PROGRAM = r"(?:\w+=\S+ )*(?:exec )?(?:(?:\.venv/bin/)?snakemake|\$\(SNAKEMAKE\)|sbatch \S*packed\.sbatch)(?= )"
IN_CODE = re.compile(rf"`({PROGRAM}[^`]*)`")
ON_A_LINE = re.compile(rf"^[\s#*$>@{{]*(?:if )?({PROGRAM} .*?)(?: #.*| ?[;&|].*)?$", re.MULTILINE)
CHAINED = re.compile(rf"(?:&&|\|\|) ({PROGRAM}.*?)(?= ?[;&|]|$)", re.MULTILINE)
NO_FILES = ("--configfile", "--configfiles")
WRONG = [
    ".venv/bin/snakemake --profile profiles/local --configfile mine.yaml available",
    ".venv/bin/snakemake --profile profiles/local --logger rich available",
    ".venv/bin/snakemake --profile profiles/local digits",
    ".venv/bin/snakemake --dry-run results/tables/probes.tsv",
    ".venv/bin/snakemake --until train available",
    "sbatch profiles/slurm_mysite/packed.sbatch --configfile mine.yaml digits",
]
RIGHT = [
    ".venv/bin/snakemake available --profile profiles/local --configfile mine.yaml --logger rich",
    ".venv/bin/snakemake --configfile mine.yaml more.yaml --logger rich -- available",
    ".venv/bin/snakemake --config machine=mine.yaml packed=true --dry-run",
    "sbatch profiles/slurm_mysite/packed.sbatch digits --configfile mine.yaml",
]


@cache
def list_options() -> dict[str, argparse.Action]:
    return {name: action for action in get_argument_parser()._actions for name in action.option_strings}


def is_target(word: str) -> bool:
    """Whether a word is the name of a target of this project, or a file that a rule makes."""
    return word in ("all", "available", "prepared", "preparation", "digits") or word.startswith("results/")


def takes(action: argparse.Action, word: str, position: int) -> bool:
    """Whether a word is meant as the value of an option, at this position behind it."""
    if action.nargs in ("+", "*"):
        expects_yaml = bool(set(NO_FILES) & set(action.option_strings))
        return not is_target(word) and (word.endswith(".yaml") or not expects_yaml)
    return position == 0 and action.nargs != 0


def find_late_targets(command: str) -> list[str]:
    """Return the targets of a command line that stand behind an option."""
    words = shlex.split(command)
    start = next(i for i, word in enumerate(words) if word.endswith(("snakemake", "(SNAKEMAKE)", "packed.sbatch")))
    late, action, position = [], None, 0
    for word in words[start + 1 :]:
        if word == "--":
            break
        if word.startswith("-"):
            name, _, value = word.partition("=")
            action, position = list_options()[name], 1 if value else 0
        elif action is not None and not takes(action, word, position):
            late.append(word)
        else:
            position += 1
    return late


def find_commands(text: str) -> list[str]:
    """Return the command lines of Snakemake in a text, each in one line."""
    text = text.replace("\\\n", " ")
    found = [match[1] for pattern in (IN_CODE, ON_A_LINE, CHAINED) for match in pattern.finditer(text)]
    return [" ".join(re.sub(r"^[#*>\s]+", "", line) for line in command.split("\n")) for command in found]


def read_commands() -> list[tuple[str, str]]:
    paths = [ROOT / name for name in READ]
    for folder in FOLDERS:
        paths += sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES)
    return [(str(path.relative_to(ROOT)), command) for path in paths for command in find_commands(path.read_text())]


@pytest.mark.parametrize("command", WRONG)
def test_a_target_behind_an_option_is_found(command):
    assert len(find_late_targets(command)) == 1


@pytest.mark.parametrize("command", RIGHT)
def test_a_target_before_the_options_is_right(command):
    assert find_late_targets(command) == []


def test_command_lines_in_documents_name_targets_first():
    commands = read_commands()
    assert {"README.md", "config/README.md", "profiles/README.md", "examples/model/config.yaml", "Makefile"} <= {
        path for path, _ in commands
    }
    assert len(commands) > 20 and sum(is_target(command.split()[1]) for _, command in commands) >= 5
    wrong = {(path, command): late for path, command in commands if (late := find_late_targets(command))}
    assert wrong == {}


@pytest.mark.parametrize(
    ("given", "targets"),
    [
        (["--profile", "profiles/slurm", "--configfile", "mine.yaml", "--logger", "rich"], []),
        (["digits", "--profile", "profiles/slurm", "--configfile", "mine.yaml", "--logger", "rich"], ["digits"]),
        (["--profile", "profiles/slurm", "--configfile", "mine.yaml", "--logger", "rich", "--", "digits"], ["digits"]),
    ],
)
def test_the_last_message_has_the_command_line_for_available_results(given, targets):
    expected = "available --profile profiles/slurm --configfile mine.yaml --logger rich"
    command = repeat_call("available", ["snakemake", *given], targets)
    assert command == f".venv/bin/snakemake {expected}" and find_late_targets(command) == []
    assert describe_end("", True, ["snakemake", *given], targets).endswith(command)
    assert "available" not in describe_end("", True, ["snakemake", "available"], ["available"])


def test_the_last_message_names_the_answer_and_the_command_line_for_the_report():
    made = ["results/tables/s/runs.tsv", "results/tables/s/answer.txt", "results/tables/answer.txt"]
    told = "and as Markdown beside it. This writes the report: .venv/bin/snakemake"
    said = f"The answer is in results/tables/answer.txt, {told}"
    call = ["snakemake", "--configfile", "mine.yaml"]
    assert describe_success(made, call, []) == f"{said} --configfile mine.yaml --report results/report.html"
    said = f"The answer is in results/tables/s/answer.txt, {told} s"
    for given in (["snakemake", "s", *call[1:]], [*call, "--", "s"]):
        assert describe_success(made[:2], given, ["s"]) == f"{said} --configfile mine.yaml --report results/report.html"
    assert describe_success(made[:1], call, []) == ""


@pytest.mark.parametrize(
    ("interruption", "submits", "words"),
    [
        ("Ctrl-C", True, "its jobs were cancelled"),
        ("Ctrl-C", False, "its jobs were stopped"),
        ("SIGTERM", True, "jobs that had not started were cancelled"),
        ("SIGTERM", False, "no other job was started"),
    ],
)
def test_an_interrupted_call_did_not_fail(interruption, submits, words):
    message = describe_end(interruption, submits, ["snakemake"], [])
    assert message.startswith(f"The call was interrupted by {interruption}; {words}.") and "failed" not in message
