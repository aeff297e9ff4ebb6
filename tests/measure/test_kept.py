"""What is kept in the cache is made anew when anything that it depends on has changed, and in CI."""

import os

import pytest

from gate.observing import OF_REFERENCE
from helpers.observations import CODE, COMPLETE, EXAMPLES, LIBRARY, NUM_VERSIONS, TESTS, Keeper, hash_code, keep
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.environments.cache import VARIABLE
from howmanygpus.study.invalidation.code import collect_script_code, collect_training_code


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Use an empty cache, and return the list of the folders that are made."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv("CI", raising=False)
    return []


def make_in(made):
    def make(folder):
        assert list(folder.iterdir()) == []
        (folder / "seen").write_text(str(len(made)))
        made.append(folder)

    return make


def test_a_folder_is_made_once_for_each_key(made, tmp_path):
    first = keep("a", ["key"], tmp_path, make_in(made))
    assert keep("a", ["key"], tmp_path, make_in(made)) == first and made == [first]
    second = keep("a", ["other key"], tmp_path, make_in(made))
    assert made == [first, second] and first.exists()


def test_a_folder_whose_making_failed_is_made_anew(made, tmp_path):
    def fail(folder):
        (folder / "half").touch()
        raise ValueError("it crashed")

    with pytest.raises(ValueError, match="it crashed"):
        keep("a", ["key"], tmp_path, fail)
    keep("a", ["key"], tmp_path, make_in(made))
    assert len(made) == 1


def test_the_folders_that_were_used_last_stay(made, tmp_path):
    folders = [keep("a", [number], tmp_path, make_in(made)) for number in range(NUM_VERSIONS)]
    keep("a", [0], tmp_path, make_in(made))
    keep("a", ["new"], tmp_path, make_in(made))
    assert [folder.exists() for folder in folders] == [True, False, *[True] * (NUM_VERSIONS - 2)]


def test_ci_makes_everything_anew_and_once_for_all_workers(made, tmp_path, monkeypatch):
    keep("a", ["key"], tmp_path / "first", make_in(made))
    monkeypatch.setenv("CI", "true")
    for call in ("first", "second"):
        for _ in range(2):
            keep("a", ["key"], tmp_path / call, make_in(made))
    assert len(made) == 3


def test_changed_code_counts_and_a_changed_docstring_does_not(tmp_path):
    hashes = []
    for number, text in enumerate(('"""A."""\nX = 1\n', '"""B."""\nX = 1\n', '"""B."""\nX = 2\n')):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "code.py").write_text(text)
        hashes.append(hash_code({folder: ("*.py",)}))
    assert hashes[0] == hashes[1] != hashes[2]
    (folder / "added.py").write_text("")
    assert hash_code({folder: ("*.py",)}) != hashes[2]


def test_the_code_that_runs_and_tests_execute_counts():
    paths = {path for top, patterns in CODE.items() for pattern in patterns for path in top.glob(pattern)}
    assert {
        LIBRARY / "measure" / "loop" / "loop.py",
        LIBRARY / "prepare" / "__init__.py",
        LIBRARY / "files.py",
    } <= paths
    assert {
        TESTS / "helpers" / "specs.py",
        TESTS / "measure" / "asked.py",
        TESTS / "measure" / "load_batches.py",
    } <= paths
    assert any(EXAMPLES in path.parents for path in paths)


def test_no_gated_framework_executes_code_of_the_references():
    left_out = {str(LIBRARY / "gate" / f"{module}.py") for module in OF_REFERENCE}
    assert all(map(os.path.exists, left_out))
    for framework in FRAMEWORKS:
        executed = collect_script_code("observe_parity", "gate.observe", "gate.process")
        executed += collect_training_code(framework, "small_cnn")
        assert not left_out & set(executed)


def test_environments_and_the_tests_own_keys_count(made, tmp_path):
    kept = Keeper(tmp_path)
    for environment, *key in (("pytorch-cpu",), ("jax-cpu",), ("jax-cpu", "key")):
        assert (kept("a", environment, make_in(made), *key) / COMPLETE).exists()
    assert len(made) == 3


def test_a_failed_program_is_not_started_again_for_other_tests(made, tmp_path):
    def fail(folder):
        made.append(folder)
        raise ValueError("it crashed")

    kept = Keeper(tmp_path)
    for _ in range(2):
        with pytest.raises(ValueError, match="it crashed"):
            kept("a", "pytorch-cpu", fail)
    assert len(made) == 1
