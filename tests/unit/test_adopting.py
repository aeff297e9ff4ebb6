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
    command = [sys.executable, str(ROOT / "workflow" / "scripts" / "adopt_results.py"), "--source", str(source)]
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
