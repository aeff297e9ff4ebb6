"""`make adopt` copies the results of another clone, and leaves nothing that both would write."""

import os
import subprocess
import sys

import pytest

from project import ROOT


@pytest.fixture
def clones(tmp_path):
    """Return the folders of a clone with a result and of a fresh one."""
    source, fresh = tmp_path / "source", tmp_path / "fresh"
    (source / "results" / "runs").mkdir(parents=True)
    (source / "results" / "runs" / "run.json").write_text("{}")
    fresh.mkdir()
    return source, fresh


def adopt(source, folder):
    command = [sys.executable, "-m", "howmanygpus_tools.adopt", "--source", str(source)]
    variables = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    subprocess.run(command, cwd=folder, env=variables, check=True, capture_output=True)


def test_results_that_are_a_link_to_another_disk_are_copied(clones, tmp_path):
    source, fresh = clones
    (source / "results").rename(tmp_path / "scratch")
    (source / "results").symlink_to(tmp_path / "scratch")
    adopt(source, fresh)
    (fresh / "results" / "runs" / "run.json").write_text("new")
    assert not (fresh / "results").is_symlink()
    assert (source / "results" / "runs" / "run.json").read_text() == "{}"


def test_adopting_copies_links_to_other_disks_and_keeps_links_within_results(clones, tmp_path):
    source, fresh = clones
    runs, disk = source / "results" / "runs", tmp_path / "scratch"
    (runs / "same.json").symlink_to("run.json")
    (disk / "inner").mkdir(parents=True)
    (disk / "inner" / "elsewhere.txt").symlink_to(tmp_path / "shared.txt")
    (tmp_path / "shared.txt").write_text("shared")
    (source / "results" / "prepared").symlink_to(disk)
    adopt(source, fresh)
    results = fresh / "results"
    assert (results / "runs" / "same.json").readlink().name == "run.json"
    assert (results / "prepared" / "inner" / "elsewhere.txt").read_text() == "shared"
    assert [path.name for path in results.rglob("*") if path.is_symlink()] == ["same.json"]


def test_a_link_that_leads_nowhere_is_named(clones):
    source, fresh = clones
    (source / "results" / "prepared").symlink_to("/no/such/disk")
    command = [sys.executable, "-m", "howmanygpus_tools.adopt", "--source", str(source)]
    variables = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    ended = subprocess.run(command, cwd=fresh, env=variables, capture_output=True, text=True)
    assert ended.returncode and "results/prepared leads to /no/such/disk, which does not exist" in ended.stderr
    assert not (fresh / "results").exists()
