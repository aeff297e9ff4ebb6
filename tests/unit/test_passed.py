"""A test is not repeated only if it has passed with everything it depends on as it is now, and never in CI."""

from types import SimpleNamespace

import pytest

import passed
from howmanygpus.environments.cache import VARIABLE
from howmanygpus.plan.invalidation.syntax import read_code
from kept import LIBRARY, NUM_VERSIONS, find_files
from project import ROOT

PHASES = ("setup", "call", "teardown")


class Item(SimpleNamespace):
    """What passed.py reads of a test."""

    def __init__(self, folder, name="test_a"):
        path = folder / f"{name}.py"
        super().__init__(path=path, nodeid=str(path), stash=pytest.Stash(), fixturenames=["project"], markers=[])

    def add_marker(self, marker):
        self.markers.append(marker)


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Use an empty cache and a file of tests that may be kept."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "slurm").mkdir()
    path = tmp_path / "slurm" / "test_a.py"
    path.write_text("X = 1\n")
    return path


def collect(file, keep=True) -> Item:
    item = Item(file.parent, file.stem)
    passed.skip_passed(SimpleNamespace(getoption=lambda name: keep), [item])
    return item


def end(item, failing: str | None = None):
    for phase in PHASES:
        passed.note_end(item, SimpleNamespace(when=phase, passed=phase != failing))


def test_a_test_that_passed_is_not_repeated_until_its_file_changes(file):
    end(collect(file))
    (marker,) = collect(file).markers
    assert (marker.name, marker.kwargs) == ("skip", {"reason": passed.REASON})
    read_code.cache_clear()
    file.write_text("# A comment.\nX = 1\n")
    assert collect(file).markers
    read_code.cache_clear()
    file.write_text("X = 2\n")
    assert not collect(file).markers


@pytest.mark.parametrize("phase", PHASES)
def test_a_test_that_failed_in_any_phase_is_repeated(file, phase):
    end(collect(file), failing=phase)
    assert not collect(file).markers


def test_tests_are_repeated_without_the_option_and_in_ci(file, monkeypatch):
    end(collect(file))
    assert not collect(file, keep=False).markers
    monkeypatch.setenv("CI", "1")
    assert not collect(file).markers


def test_ci_notes_nothing(file, monkeypatch):
    monkeypatch.setenv("CI", "1")
    end(collect(file))
    monkeypatch.delenv("CI")
    assert not collect(file).markers


def test_tests_of_other_folders_and_of_documents_are_repeated(file):
    for path in (file.parents[1] / "unit" / "test_a.py", file.with_name("test_contributing.py")):
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
        end(collect(path))
        assert not collect(path).markers


def test_what_passed_with_the_last_versions_is_known(file, monkeypatch):
    for version in range(NUM_VERSIONS + 1):
        monkeypatch.setattr(passed, "hash_shared", lambda _, version=version: str(version))
        end(collect(file))
    for version in range(NUM_VERSIONS + 1):
        monkeypatch.setattr(passed, "hash_shared", lambda _, version=version: str(version))
        assert bool(collect(file).markers) == (version > 0)


def test_a_kept_test_is_counted_as_kept():
    kept = SimpleNamespace(skipped=True, longrepr=("conftest.py", 1, f"Skipped: {passed.REASON}"))
    assert passed.describe(kept) == ("kept", "k", "KEPT")
    other = SimpleNamespace(skipped=True, longrepr=("conftest.py", 1, "Skipped: no SLURM"))
    assert passed.describe(other) is None
    assert passed.describe(SimpleNamespace(skipped=False, longrepr=None)) is None


def test_all_that_a_copy_has_counts_and_frameworks_where_they_are_executed():
    found = {
        path for top, patterns in passed.SHARED.items() for pattern in patterns for path in find_files(top, pattern)
    }
    needed = ["Snakefile", "Makefile", "config/config.yaml", "profiles/slurm/config.yaml"]
    needed += [
        "envs/measured.txt",
        "docs/own_model.md",
        "workflow/rules/train.smk",
        "tests/slurm/conftest.py",
        "tests/specs.py",
    ]
    needed += ["benchmarks/sandbox/slurm/cluster.py", "examples/program/config.yaml", "workflow/scripts/make_table.py"]
    assert {ROOT / path for path in needed} <= found
    assert not any(path.suffix == ".pyc" for path in found)
    families = {path.name for path in (LIBRARY / "train" / "frameworks").iterdir() if (path / "layers").is_dir()}
    assert families == set(passed.FRAMEWORKS)
    assert passed.hash_shared(True) != passed.hash_shared(False)
