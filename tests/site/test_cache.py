"""A cache that cannot be used is refused, with the remedy, before anything starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from howmanygpus.site.environments.cache import CacheError, check_cache
from project import ODD_FOLDER, ROOT, study

READ_ONLY = "/proc/howmanygpus"
"""A folder that nobody can create."""
WRONG = {
    "~/cache": "HOWMANYGPUS_CACHE: '~/cache' begins with ~, which a shell replaces only outside quotes; write $HOME",
    "cache": "HOWMANYGPUS_CACHE: 'cache' is a relative path, another folder for each step; write /",
    READ_ONLY: f"HOWMANYGPUS_CACHE: '{READ_ONLY}' cannot be written (No such file or directory: ",
    "{folder}/file": "cannot be a folder, because {folder}/file is a file; set HOWMANYGPUS_CACHE to the absolute path",
    "{folder}/file/below": "cannot be a folder, because {folder}/file is a file; set HOWMANYGPUS_CACHE to the absolute",
}
each_wrong = pytest.mark.parametrize(("given", "words"), WRONG.items())


@each_wrong
def test_a_wrong_value_is_refused_with_the_remedy(given, words, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOWMANYGPUS_CACHE", given.format(folder=tmp_path))
    with pytest.raises(CacheError) as error:
        check_cache()
    assert words.format(folder=tmp_path) in str(error.value)


def test_an_unusable_default_is_named(monkeypatch):
    monkeypatch.delenv("HOWMANYGPUS_CACHE", raising=False)
    monkeypatch.setenv("HOME", READ_ONLY)
    words = f"HOWMANYGPUS_CACHE is not set, and the cache '{READ_ONLY}/.cache/howmanygpus' cannot be written"
    with pytest.raises(CacheError, match=words):
        check_cache()


def test_a_cache_that_is_missing_is_created(tmp_path, monkeypatch):
    monkeypatch.setenv("HOWMANYGPUS_CACHE", str(tmp_path / ODD_FOLDER))
    check_cache()
    assert list((tmp_path / ODD_FOLDER / "environments").iterdir()) == []


@each_wrong
def test_make_refuses_before_it_installs(given, words, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    for name in ("workflow", "envs"):
        (tmp_path / name).symlink_to(ROOT / name)
    cache = given.format(folder=tmp_path)
    command = ["make", ".venv/installed", f"PYTHON={sys.executable}", f"HOWMANYGPUS_CACHE={cache}"]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode and words.format(folder=tmp_path) in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Makefile", "envs", "file", "workflow"]


def test_make_and_python_name_the_same_cache_without_a_home():
    variables = {name: value for name, value in os.environ.items() if name not in ("HOME", "HOWMANYGPUS_CACHE")}
    command = ["make", "--dry-run", "--always-make", ".venv/installed", f"PYTHON={sys.executable}"]
    planned = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True).stdout
    ask = [
        sys.executable,
        "-c",
        "from howmanygpus.site.environments.cache import resolve_cache; print(resolve_cache())",
    ]
    variables["PYTHONPATH"] = str(ROOT / "workflow" / "lib")
    found = subprocess.run(ask, env=variables, capture_output=True, text=True, check=True).stdout.strip()
    assert f'mkdir -p "{found}"' in planned


def test_a_dry_run_needs_no_cache_that_may_be_written(project, tmp_path, monkeypatch, make_read_only):
    """The home folder, of which Snakemake needs a part, may be written."""
    (tmp_path / "shared" / "environments").mkdir(parents=True)
    make_read_only(tmp_path / "shared")
    monkeypatch.setenv("HOWMANYGPUS_CACHE", str(tmp_path / "shared"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    assert "This call would do" in project.snakemake("--dry-run")


def test_snakemake_refuses_before_it_plans(project, tmp_path, monkeypatch):
    monkeypatch.setenv("HOWMANYGPUS_CACHE", "~/cache")
    output = project.snakemake(expect=1)
    assert WRONG["~/cache"] in output and "Building DAG" not in output
    assert not Path(project.folder, "~").exists()
