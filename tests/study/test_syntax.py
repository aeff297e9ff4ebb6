"""The hash of code changes with what it does, and with nothing else."""

import ast
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from howmanygpus.study.invalidation import syntax
from howmanygpus.study.invalidation.syntax import read_code
from project import ROOT

CODE = """
def name(value, *others):
    return f"{value}{others!r:>{value}}"
"""


def digest(tmp_path, code):
    path = tmp_path / f"code{len(list(tmp_path.iterdir()))}.py"
    path.write_text(code)
    return read_code(path).digest


@pytest.mark.parametrize(
    "same",
    [
        CODE.replace("others):", "others):\n    # a comment"),
        CODE.replace("others):", 'others):\n    """What it does."""'),
        CODE.replace("value, *others", "\n    value,\n    *others,\n"),
    ],
)
def test_comments_and_docstrings_change_nothing(tmp_path, same):
    assert digest(tmp_path, same) == digest(tmp_path, CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("*others", "*others: int"),
        ("*others", "*, others"),
        ("value, ", "value=None, "),
        ("{value}{", "{value} {"),
        ("!r", ""),
        ("return", "return None or"),
        ("\ndef", "\n@staticmethod\ndef"),
        ("def name", "async def name"),
    ],
)
def test_changed_behaviour_changes_the_hash(tmp_path, old, new):
    assert digest(tmp_path, CODE.replace(old, new, 1)) != digest(tmp_path, CODE)


def test_none_is_not_nothing(tmp_path):
    assert digest(tmp_path, "def f():\n    return None") != digest(tmp_path, "def f():\n    return")
    assert digest(tmp_path, "a = ''") != digest(tmp_path, "a = f''")


def test_a_field_that_a_later_python_adds_changes_nothing(tmp_path, monkeypatch):
    before = digest(tmp_path, CODE)
    monkeypatch.setattr(ast.FunctionDef, "_fields", (*ast.FunctionDef._fields, "future_parameters"))
    monkeypatch.setattr(ast.FunctionDef, "future_parameters", [], raising=False)
    monkeypatch.setattr(syntax, "read_known_code", dict)
    assert digest(tmp_path, CODE) == before


def find_other_pythons():
    """Return the Pythons of this machine that are of another version than this one, and read our code."""
    ask = "import sys; print(sys.version_info >= (3, 11) and sys.version_info[:2])"
    found = {}
    for path in [*Path.home().glob(".pyenv/versions/*/bin/python3"), *Path("/usr/bin").glob("python3.[0-9][0-9]")]:
        version = subprocess.run([path, "-c", ask], capture_output=True, text=True).stdout.strip()
        found[version] = path
    return [path for version, path in found.items() if version not in ("", "False", str(sys.version_info[:2]))]


def test_other_pythons_of_this_machine_find_the_same():
    if not (pythons := find_other_pythons()):
        pytest.skip("this machine has no other Python from 3.11 on")
    files = sorted(str(path) for path in (ROOT / "workflow").rglob("*.py"))
    hashes = "import json, sys\nfrom pathlib import Path\nfrom howmanygpus.study.invalidation.syntax import read_code\n"
    hashes += "print(json.dumps([read_code(Path(path)).digest for path in json.load(sys.stdin)]))"
    places = os.pathsep.join([str(ROOT / "workflow" / "lib"), sysconfig.get_paths()["purelib"]])
    for python in pythons:
        command = [python, "-B", "-c", hashes]
        # Outside the project's folder, so that nothing is looked up in its cache of analysed files.
        done = subprocess.run(
            command, input=json.dumps(files), env={"PYTHONPATH": places}, cwd="/", capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        found = dict(zip(files, json.loads(done.stdout), strict=True))
        assert found == {path: read_code(Path(path)).digest for path in files}, python
