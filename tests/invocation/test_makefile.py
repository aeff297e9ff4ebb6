"""`make` says what to do about a Python that does not start."""

import os
import shutil
import subprocess

import pytest

from project import ROOT

SHIM = "#!/bin/sh\necho 'pyenv: python3.12: command not found' >&2\nexit 127\n"


@pytest.mark.parametrize("target", ["demo", "adopt"])
@pytest.mark.parametrize("is_there", [True, False], ids=["shim", "missing"])
def test_a_python_that_does_not_start_is_named_with_the_remedy(tmp_path, target, is_there):
    for name in ("Makefile", "envs/workflow.txt", "envs/locks/workflow.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    python = tmp_path / "python3.12"
    if is_there:
        python.write_text(SHIM)
        python.chmod(0o755)
    ended = subprocess.run(["make", target, f"PYTHON={python}"], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2 and "127" not in ended.stderr.splitlines()[-1]
    assert f"PYTHON={python}: " in ended.stderr and "make PYTHON=" in ended.stderr and "pyenv" in ended.stderr


def is_below(file: str, places: set[str]) -> bool:
    return any(file == place or file.startswith(f"{place}/") for place in places)


@pytest.fixture
def run_ci(tmp_path):
    """Return a function that runs .ci/run without its tests, and returns the files of each call of `make test-slow`.

    commit: their number. spent_s: seconds that have passed when it begins.
    """
    for name in ("bash", "dirname"):
        (tmp_path / name).symlink_to(shutil.which(name))
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))

    def run(commit: int, spent_s: int) -> list[list[str]]:
        fakes = {
            "git": f"case $1 in rev-list) echo {commit};; rev-parse) echo false;; esac",
            "make": 'for word; do case $word in TESTS=*) echo "made ${word#TESTS=}";; esac; done',
        }
        for name, does in fakes.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
            (tmp_path / name).chmod(0o755)
        environment = os.environ | {"PATH": str(tmp_path), "SECONDS": str(spent_s)}
        ended = subprocess.run(["bash", ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        calls = [line.split()[1:] for line in ended.stdout.splitlines() if line.startswith("made ")]
        assert ("is not begun after" in ended.stdout) == (len(calls) < 2)
        return [choose(files, given) for given in calls]

    return run


def choose(files: list[str], given: list[str]) -> list[str]:
    """Return the files of tests that pytest would choose by its arguments."""
    ignored = {word.removeprefix("--ignore=") for word in given if word.startswith("--ignore=")}
    named = {word for word in given if not word.startswith("--ignore=")} or {"tests"}
    return [file for file in files if is_below(file, named) and not is_below(file, ignored)]


def test_continuous_integration_runs_each_file_of_tests_once(run_ci):
    first, second = run_ci(1765, spent_s=0)
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    assert sorted([*first, *second]) == files
    assert run_ci(1766, spent_s=0) == [second, first]


def test_two_consecutive_commits_run_each_file_of_tests_on_slow_cores(run_ci):
    both = [run_ci(commit, spent_s=45 * 60) for commit in (1765, 1766)]
    assert both == [[half] for half in run_ci(1765, spent_s=0)]


def test_check_gpu_gets_the_frameworks_and_steps_that_are_named():
    options = ["FRAMEWORKS=pytorch_ddp jax_sharding", "STEPS=gate rates"]
    named = ["--frameworks", "pytorch_ddp", "jax_sharding", "--steps", "gate", "rates"]
    for given, passed in ((options, named), ([], [])):
        made = subprocess.run(
            ["make", "--no-print-directory", "-n", "check-gpu", *given], cwd=ROOT, capture_output=True, text=True
        )
        words = made.stdout.replace("\\\n", "").split()
        assert words[words.index("--minutes") + 2 :] == passed, made.stdout + made.stderr


def test_the_first_screen_of_an_answer_is_printed_and_not_the_rest(tmp_path):
    screen = "Use 1 x cpu.\n\nThe rest is in results/tables/answer.txt: one,\n  two.\n"
    (tmp_path / "results" / "tables").mkdir(parents=True)
    (tmp_path / "results" / "tables" / "answer.txt").write_text(f"{screen}\nOne:\n\n- This is not printed.\n")
    command = ["make", "-f", ROOT / "Makefile", "--eval", "screen: ; @$(PRINT_SCREEN)", "screen"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout == f"{screen}\n"
