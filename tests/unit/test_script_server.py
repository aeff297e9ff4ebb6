"""Scripts in forks end as scripts that are started do."""

import signal
import subprocess
import sys

import psutil
import pytest

from ending import kill_those_left
from script_server import SCRIPTS, make_venv

SCRIPT = f"workflow/scripts/{SCRIPTS[0]}.py"
BOTH = pytest.mark.parametrize("find_python", [lambda: make_venv() / "bin" / "python", lambda: sys.executable])


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Return a function that starts a script of the given text, in a folder and an environment of its own."""
    (tmp_path / "workflow" / "scripts").mkdir(parents=True)
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "own.py").write_text("NAME = __name__")
    monkeypatch.setenv("PYTHONPATH", "library")
    monkeypatch.setenv("GIVEN", "müller")

    def start(python, text, *arguments):
        (tmp_path / SCRIPT).write_text(text)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([python, SCRIPT, *arguments], cwd=tmp_path, text=True, **pipes)

    return start


@BOTH
def test_a_script_has_its_folder_arguments_environment_and_modules(start, find_python, tmp_path):
    text = "import os, sys, own; print(os.getcwd(), sys.argv, os.environ['GIVEN'], own.NAME, __name__)"
    printed, errors = start(find_python(), text, "a b").communicate()
    assert printed.split("\n")[0] == f"{tmp_path} {[SCRIPT, 'a b']} müller own __main__", errors


def test_the_imports_are_done_already_but_never_the_project_s(start):
    text = "import sys; print('pandas' in sys.modules, any(name.startswith('howmanygpus') for name in sys.modules))"
    assert start(make_venv() / "bin" / "python", text).communicate()[0] == "True False\n"


@BOTH
@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('no such table')", 1, "no such table\n"),
        ("raise ValueError('odd')", 1, "ValueError: odd\n"),
    ],
)
def test_a_script_exits_as_it_would(start, find_python, text, status, words):
    process = start(find_python(), text)
    assert process.communicate()[1].endswith(words) and process.returncode == status


@BOTH
def test_a_script_ends_with_the_process_that_was_killed(start, find_python):
    process = start(find_python(), "import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    script = psutil.Process(int(process.stdout.readline()))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not kill_those_left([script], timeout_s=120)
