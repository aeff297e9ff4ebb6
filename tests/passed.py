"""
Tests that need not be repeated, because they passed before with everything they depend on as it is now.

With `--keep-passed`, which `make test` gives, a test of tests/slurm/ or tests/workflow/ that has passed with the same
files, pins, packages and programs is not started again, and is counted as `kept`. A test that failed, and every test in
CI, is started. A change of a docstring or a comment is none.
"""

import hashlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from howmanygpus.environments.cache import find_root
from howmanygpus.files import write_json_atomic
from kept import EXAMPLES, LIBRARY, NUM_VERSIONS, TESTS, hash_code
from project import COPIED, ROOT, SANDBOX

FOLDERS = ("slurm", "workflow")
READ_ALL = ("test_contributing", "test_published_numbers", "test_style")
"""Files of tests that also depend on the project's documents."""
SHARED = {
    ROOT: (*(f"{name}/**/*" for name in COPIED), "Snakefile", "Makefile", "docs/own_model.md", "docs/program.md"),
    SANDBOX: ("**/*.py",),
    EXAMPLES: ("**/*",),
    TESTS: ("*.py", "fakes/**/*.py", "fakes/*.c", "*/conftest.py"),
}
"""Files that each of these tests may depend on, with its own."""
FRAMEWORKS = ("chainer", "flax", "gluon", "keras", "torch")
"""Folders of train/frameworks/ that a test executes only if it asks for an environment."""
ENVIRONMENTS = {"environment_record", "environment_python"}
KEY, HAS_PASSED = pytest.StashKey[str](), pytest.StashKey[bool]()
REASON = "passed before with the same files, pins and packages; CI=1 repeats it"


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--keep-passed", action="store_true", help="do not repeat tests that nothing can have changed")


def skip_passed(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need not be repeated. The others have the key of the files as they are now."""
    if os.environ.get("CI"):
        return
    for item in filter(is_kept, items):
        item.stash[KEY] = find_key(item)
        if config.getoption("--keep-passed") and item.stash[KEY] in read_keys(item.nodeid):
            item.add_marker(pytest.mark.skip(reason=REASON))


def note_end(item: pytest.Item, report: pytest.TestReport) -> None:
    """Note that a test has passed, once its fixtures have ended too."""
    item.stash[HAS_PASSED] = report.passed and item.stash.get(HAS_PASSED, report.when == "setup")
    if report.when == "teardown" and item.stash[HAS_PASSED] and KEY in item.stash:
        path, key = path_of(item.nodeid), item.stash[KEY]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomic(path, [*(each for each in read_keys(item.nodeid) if each != key), key][-NUM_VERSIONS:])


def describe(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Return how a kept test is counted and shown."""
    if report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[2].endswith(REASON):
        return "kept", "k", "KEPT"
    return None


def is_kept(item: pytest.Item) -> bool:
    return item.path.parent.name in FOLDERS and item.path.stem not in READ_ALL


def find_key(item: pytest.Item) -> str:
    executes_frameworks = item.path.parent.name != "slurm" or bool(ENVIRONMENTS & set(item.fixturenames))
    code = hash_code({item.path.parent: (item.path.name,)})
    return hashlib.sha256(json.dumps([hash_shared(executes_frameworks), code]).encode()).hexdigest()[:16]


@cache
def hash_shared(executes_frameworks: bool) -> str:
    """Return the hash of what all tests may depend on, as it was when this process collected the tests."""
    left_out = () if executes_frameworks else tuple(list_framework_files())
    packages = sorted(f"{each.name}=={each.version}" for each in metadata.distributions())
    values = [hash_code(SHARED, left_out), packages, sys.version, os.uname().release, len(os.sched_getaffinity(0))]
    with suppress(OSError):
        values.append(subprocess.run(["slurmctld", "-V"], capture_output=True, text=True).stdout)
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def list_framework_files() -> list[str]:
    folder = LIBRARY / "train" / "frameworks"
    return [path.as_posix() for name in FRAMEWORKS for path in (folder / name).rglob("*.py")]


def path_of(nodeid: str) -> Path:
    return find_root() / "observations" / "passed" / f"{hashlib.sha256(nodeid.encode()).hexdigest()[:16]}.json"


def read_keys(nodeid: str) -> list[str]:
    """Return the last keys with which a test has passed, the latest last."""
    with suppress(FileNotFoundError):
        return json.loads(path_of(nodeid).read_text())
    return []
