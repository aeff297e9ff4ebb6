"""Fixtures that several test folders share."""

import compileall
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from xdist.scheduler import LoadFileScheduling

from environments import build, read_python
from helpers.observations import Keeper
from howmanygpus.measure.launch.launch import LOCK_FOLDER
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.environments.build import find_python
from howmanygpus.site.environments.pins import list_pin_files
from measure.launching import COMPILE_SOON, Finished, train, train_in_turn
from project import ROOT, Project, study

LONGEST = (
    "demo",
    "gate",
    "gate_on_faults",
    "endings",
    "frameworks_over_nodes",
    "retries",
    "interruptions",
    "grid",
    "bill",
    "real_data",
    "backends",
)
"""Files that take longest, without `test_`."""
SPLIT = ("gate", "gate_on_faults", "gate_of_own_models", "backends")
"""Files whose tests are divided among workers by family, because families share no start of a framework."""
WHOLE_CALLS = ("workflow", "cluster")
"""Folders with tests of whole calls of Snakemake. `make test-all` runs them, and `make test` those marked as quick."""
FAMILIES = {name: entry.family for name, entry in FRAMEWORKS.items()}
FAMILIES |= {family: family for family in FAMILIES.values()}
"""Families by the words for them in the names of tests."""
NO_PARAMETERS = SimpleNamespace(params={})
# Let Python keep what it compiles, as it does by default: pytest takes longer to rewrite the tests than to import them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


SESSION_BEGIN = time.monotonic()


class FileOrFamilyScheduling(LoadFileScheduling):
    """Gives a worker all tests of a file, or all of one family in a file of SPLIT."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, name = nodeid.partition("::")
        if Path(file).stem.removeprefix("test_") not in SPLIT:
            return file
        words = re.split(r"[\[\]-]", name)
        return " ".join([file, *sorted({FAMILIES[word] for word in words if word in FAMILIES})])


def pytest_addoption(parser):
    parser.addoption("--minutes", type=float, default=math.inf, help="skip what is not begun after so many minutes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip the rest of the tests when their time is up, so that a slow machine ends with what it has tested."""
    minutes = item.config.getoption("--minutes")
    if time.monotonic() - SESSION_BEGIN > 60 * minutes:
        pytest.skip(f"not begun within --minutes {minutes:g}")


def pytest_xdist_make_scheduler(config, log):
    return FileOrFamilyScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


RETIRED = {name: entry for name, entry in FRAMEWORKS.items() if entry.support == "retired"}
OF_RETIRED = {word for name, entry in RETIRED.items() for word in (name, entry.family, entry.environments["cpu"])}
"""Values of parameters by which a test is about a retired framework."""


def pytest_itemcollected(item):
    """Mark a test with its tier: with `frameworks` if it asks for an environment, else with `quick`.

    Those of retired frameworks are in the longest tier only.
    """
    if OF_RETIRED & {
        value for value in getattr(item, "callspec", NO_PARAMETERS).params.values() if isinstance(value, str)
    }:
        item.add_marker("retired")
    if item.path.parent.name not in WHOLE_CALLS:
        item.add_marker("frameworks" if "environment_record" in item.fixturenames else "quick")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Put long files first, so that no worker begins one when the others end, and retired frameworks last."""
    items.sort(
        key=lambda item: (
            "retired" in item.keywords,
            item.path.stem.removeprefix("test_") not in LONGEST,
            "quick" in item.keywords,
        )
    )


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_make():
    """Let a make that a test starts not inherit the options of the make that started the tests."""
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
        os.environ.pop(name, None)


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory):
    """Give each test session a temporary folder, and a machine's lock there, so that it waits for no other session."""
    tempfile.tempdir = os.environ["TMPDIR"] = os.environ[LOCK_FOLDER] = str(tmp_path_factory.mktemp("tmp"))


@pytest.fixture(scope="session", autouse=True)
def bytecode():
    """Compile the library, which copies of the project then have compiled."""
    compileall.compile_dir(ROOT / "workflow" / "lib", quiet=1)


@pytest.fixture
def project(tmp_path):
    """Return a fresh copy of the project. Processes that still run in it after the test are killed."""
    project = Project(tmp_path / "project")
    yield project
    project.kill_processes()


@pytest.fixture
def make_read_only():
    """Return a function that mounts a folder over itself so that nobody can write it."""
    mounted: list[Path] = []

    def make(folder: Path) -> None:
        command = ["mount", "--bind", folder, folder]
        if (done := subprocess.run(command, capture_output=True, text=True)).returncode:
            pytest.skip(f"mount is not allowed here: {done.stderr}")
        mounted.append(folder)
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)

    yield make
    for folder in mounted:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def compile_soon(monkeypatch):
    """Shorten compilation, for tests in which the speed of the compiled code does not matter."""
    for name, value in COMPILE_SOON.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """Return a project with the data and weights of `study`, which take longer to make than its fake runs."""
    project = Project(tmp_path_factory.mktemp("prepared") / "project")
    project.write_config(small=study())
    project.snakemake("--until", "prepare_arrays", "initialize_weights")
    return project


@pytest.fixture(scope="session")
def scratch(tmp_path_factory):
    """Return a folder that all workers of one call of pytest share."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared"


@pytest.fixture(scope="session")
def kept(scratch):
    return Keeper(scratch)


@pytest.fixture(scope="session")
def environment_record(tmp_path_factory):
    """Return a function from an environment's name to its record. It builds a missing environment in the cache.

    Tests of frameworks that no Python of this machine can have are skipped.
    """
    folder = tmp_path_factory.mktemp("environments")

    def get(name):
        try:
            find_python(list_pin_files(name))
        except SystemExit as error:
            pytest.skip(str(error))
        return build(name, folder)

    return get


@pytest.fixture(scope="session")
def environment_python(environment_record):
    """Return a function from an environment's name to its Python."""
    return lambda name: read_python(environment_record(name))


@pytest.fixture(scope="session")
def train_once(environment_python, kept):
    """Return a function that does runs in turn in one start of a framework, and keeps them if all exit with 0.

    The only run of a list is started by the launcher, as users' runs are.
    """

    def get(framework: str, requests: list[dict]) -> list[Finished]:
        environment = FRAMEWORKS[framework].resolve_environment("cpu", requests[0].get("loader", "shared"))

        def make(folder):
            python = environment_python(environment)
            if len(requests) == 1:
                (folder / "0").mkdir()
                ended = [train(python, folder / "0", framework, **requests[0])]
            else:
                ended = train_in_turn(python, folder, framework, requests)
            if any(each.exit_status for each in ended):
                raise ChildProcessError(ended)

        words = json.dumps([framework, requests], sort_keys=True)
        name = f"runs-{framework}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
        try:
            folder = kept(name, environment, make)
        except ChildProcessError as error:
            return error.args[0]
        return [Finished(0, "", folder / str(number)) for number in range(len(requests))]

    return get
