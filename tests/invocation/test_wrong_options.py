"""Wrong values of options and of variables of make are refused at once, with the valid ones and the nearest of them."""

import json
import os
import subprocess
import sys

import pytest

from project import ROOT

SCRIPTS = ROOT / "workflow" / "scripts"
OUTCOMES = "There are clock_mismatch, completed, diverged, failed_parity, out_of_memory, suspended, unsupported"
RETRIES = {
    "--status oom": f'"oom" is no outcome of a run; did you mean out_of_memory? {OUTCOMES}',
    "--status diverged compleded": f'"compleded" is no outcome of a run; did you mean completed? {OUTCOMES}',
    "--status crashed": "--status: a run that ended as crashed has no outcome; the next call tries it anyway",
    "--verdicts fail": '"fail" is no verdict of the parity gate; did you mean failed? There are failed, not_checked, ',
    "--status diverged --study digit": '"digit" is no study with runs here; did you mean digits? There are digits',
}
CHECKS = {
    "DEVICE=gpu": 'DEVICE: "gpu" is no device of this check; did you mean cpu? There are cpu, cuda',
    "MINUTES=-5": 'MINUTES: "-5" is no time; write a number of minutes above 0, such as 120',
    "MINUTES=2h": 'MINUTES: "2h" is no time; write a number',
    "SITE=/nowhere/python": 'SITE: "/nowhere/python" is no program here; name the Pythons that have your frameworks',
}
WHEELHOUSES = {
    "FOR_PYTHON=3": "FOR_PYTHON: 3 is no version of Python; write 3.11 or later, such as 3.12",
    "FOR_PLATFORM=linux": "FOR_PLATFORM: linux is unknown; write manylinux_2_N_ARCHITECTURE",
    "SITE_HAS=pilow": "SITE_HAS: pilow is not in envs/measured.txt; did you mean pillow? There are filelock, ",
}


@pytest.fixture
def results(tmp_path):
    """Return a folder with one run that was out of memory."""
    run = tmp_path / "results" / "runs" / "digits" / "run"
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps({"status": "out_of_memory", "reason": ""}))
    return tmp_path


@pytest.mark.parametrize(("options", "words"), RETRIES.items(), ids=RETRIES)
def test_retrying_missing_runs_is_refused(results, options, words):
    command = [sys.executable, str(SCRIPTS / "retry_runs.py"), *options.split()]
    refused = subprocess.run(command, cwd=results, capture_output=True, text=True)
    assert refused.returncode == 2 and words in refused.stderr, refused.stdout + refused.stderr
    assert not (results / "results" / "attempts").exists()


def test_the_study_of_a_folder_without_runs_is_told_so(tmp_path):
    command = [sys.executable, str(SCRIPTS / "retry_runs.py"), "--status", "diverged", "--study", "digits"]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 2 and "results/runs has no runs yet; call snakemake first" in refused.stderr


def refuse_make(folder, target: str, *variables: str) -> str:
    """Return what make says about a wrong value, in a folder without results."""
    for name in ("Makefile", "workflow", "envs", "config", "profiles"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    command = ["make", "--old-file=.venv/installed", target, *variables]
    refused = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert refused.returncode and not (folder / "results").exists(), refused.stdout
    return refused.stderr


@pytest.mark.parametrize(("variable", "words"), CHECKS.items(), ids=CHECKS)
def test_check_gpu_refuses_a_wrong_value_at_once(tmp_path, variable, words):
    usual = () if variable.startswith("DEVICE") else ("DEVICE=cpu",)
    assert words in refuse_make(tmp_path, "check-gpu", *usual, variable)


@pytest.mark.parametrize(("variable", "words"), WHEELHOUSES.items(), ids=WHEELHOUSES)
def test_wheelhouse_refuses_a_wrong_value_before_it_fetches(tmp_path, variable, words):
    assert words in refuse_make(tmp_path, "wheelhouse", variable)
    assert not list((tmp_path).rglob("*.whl"))


def test_an_unknown_environment_to_lock_is_refused():
    command = [sys.executable, "-m", "howmanygpus_tools.lock", "pytorch"]
    environment = os.environ | {"PYTHONPATH": "workflow/lib"}
    refused = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert refused.returncode == 2 and "did you mean pytorch-cpu? There are chainer-cpu, " in refused.stderr
