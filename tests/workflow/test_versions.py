"""A Snakemake that a site has does the same as the one of `.venv`: several passes, a crashed run, and its reason."""

import re
import subprocess
import sys

import pytest

from forking import STARTED_BY_USERS
from howmanygpus.site.environments.build import build_environment
from project import ROOT, RUNS, study

PINNED = re.search(r"^snakemake==(\S+)", (ROOT / "envs" / "workflow.txt").read_text(), re.MULTILINE)[1]


@pytest.fixture(scope="module")
def released() -> list[tuple[int, ...]]:
    """Return the versions of Snakemake that the index has, the newest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", "snakemake"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip(f"the index cannot be asked for versions: {listed.stderr.strip().splitlines()[-1]}")
    numbers = re.search("Available versions: (.*)", listed.stdout)[1].split(", ")
    return sorted((tuple(map(int, each.split("."))) for each in numbers), reverse=True)


def choose(released: list[tuple[int, ...]], which: str) -> str:
    """Return a version: the last one of the pinned minor version, the last one before, or the newest."""
    pinned = tuple(map(int, PINNED.split(".")[:2]))
    same, before = (
        [each for each in released if each[:2] == minor] for minor in (pinned, _find_before(released, pinned))
    )
    chosen = {"pinned": same, "before": before, "newest": released}[which][0]
    if which == "newest" and chosen == same[0]:
        pytest.skip(f"the newest version, {'.'.join(map(str, chosen))}, is of the pinned minor version")
    return ".".join(map(str, chosen))


def _find_before(released: list[tuple[int, ...]], minor: tuple[int, ...]) -> tuple[int, ...]:
    return next(each[:2] for each in released if each[:2] < minor)


@pytest.mark.parametrize("which", ["pinned", "before", "newest"])
def test_a_study_runs_with_a_snakemake_of_the_site(project, prepared, tmp_path, released, which):
    version = choose(released, which)
    pins = tmp_path / "site.txt"
    pins.write_text(f"snakemake=={version}\n")
    python = build_environment("snakemake", [pins])["python"]
    project.take_prepared(prepared)
    project.behave(sleeping__base__gpus1_="crash")
    project.write_config(small=study(num_gpus="auto", stop_below_efficiency=0.1))
    command = [python, *STARTED_BY_USERS[1:], "--profile", project.profile, *RUNS]
    called = subprocess.run(command, cwd=project.folder, env=project.environment(), capture_output=True, text=True)
    printed = called.stdout + called.stderr
    assert called.returncode == 1, "the status is that of the worst pass, and not of the last"
    assert "this call goes on with another pass" in printed, printed[-3000:]
    last = printed[printed.index("The first that failed: ") :]
    assert "gpus1" in last and "crashed: RuntimeError: the fake backend was told to crash" in last
    completed = {path.split("/")[1] + path[path.index("_gpus") :].split("_")[1] for path in project.read_records()}
    assert {"dozinggpus1", "dozinggpus2"} <= completed and not any("sleeping" in each for each in completed)
