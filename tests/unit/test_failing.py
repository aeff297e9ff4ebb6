"""A failed job is explained by its own log and its own attempt, and what sbatch says is kept."""

import errno
import functools
import json
import logging
import os
from types import SimpleNamespace

import pytest
import snakemake_executor_plugin_slurm as slurm_plugin

from howmanygpus.snakemake_patches import failing, refusing
from howmanygpus.snakemake_patches.failing import NOT_STARTED, Failures, write_quietly
from howmanygpus.snakemake_patches.refusing import find_refusal

RUN = "small/sleeping/base/arrays_fp32_cpu_gpus1_batch64_repeat1"
LOG = "results/logs/train/run.log"
SAID = "sbatch: error: Batch job submission failed: Invalid account"
MESSAGE = f"SLURM sbatch failed. The error message was '{SAID}\n'.\n    sbatch call:\n        sbatch --parsable 'it'.\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(failing, "find_full_disks", lambda folders: [])
    return tmp_path


def make_job(rule="train", **values):
    wildcards = SimpleNamespace(run=RUN)
    rule = SimpleNamespace(name=rule)
    return SimpleNamespace(rule=rule, wildcards=wildcards, log=[LOG], is_group=lambda: False, **values)


def write_attempt(folder, name, status, reason):
    path = folder / "results" / "attempts" / RUN / name / "attempt.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"status": status, "reason": reason}))


def test_a_log_of_an_earlier_call_is_gone_when_a_job_is_handed_over(folder):
    failures = Failures(print)
    failures.begin(make_job())
    assert (folder / LOG).read_text() == NOT_STARTED
    (folder / LOG).write_text("older")
    failures.begin(make_job("plan_runs"))
    assert (folder / LOG).read_text() == NOT_STARTED


def test_touch_leaves_all_logs(folder):
    handed_over = []
    run = failing._begin_jobs(Failures(print))(lambda *values: handed_over.append(values))
    for touch in (True, False):
        run(SimpleNamespace(touch=touch), [make_job()])
        assert (folder / LOG).exists() != touch
    assert len(handed_over) == 2


def test_only_the_attempt_of_this_start_is_told_and_only_if_the_log_does_not_tell_it(folder):
    said = []
    failures = Failures(said.append)
    write_attempt(folder, "20260101T000000-1", "crashed", "older")
    failures.begin(make_job())
    failures.explain(make_job())
    assert said == []
    write_attempt(folder, "20260102T000000-2", "disk_full", "newer")
    failures.explain(make_job())
    assert said == [f"{RUN}: disk_full: newer; the attempt is kept in results/attempts/{RUN}/20260102T000000-2"]
    (folder / LOG).write_text("the launcher says: newer\n")
    failures.explain(make_job())
    assert len(said) == 1


def test_a_full_disk_is_named_by_the_log_and_looked_for_once_a_minute(folder, monkeypatch):
    said, checks = [], []
    monkeypatch.setattr(failing, "find_full_disks", lambda folders: checks.append(folders) or ["the disk is full"])
    failures = Failures(said.append)
    failures.begin(make_job("build_environment"))
    words = f"ERROR: [Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}"
    (folder / LOG).write_text(f"{words}\n")
    for _ in range(3):
        failures.explain(make_job("build_environment"))
    assert len(checks) == 1 and said.count("the disk is full") == 1
    assert f"{LOG}: the disk or the quota was full: {words}" in said


@pytest.mark.parametrize(("number", "prints"), [(errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EIO, True)])
def test_a_message_that_the_disk_does_not_take_prints_no_traceback(tmp_path, capsys, number, prints):
    handler = logging.FileHandler(tmp_path / "log")
    write_quietly([handler, logging.StreamHandler()])
    try:
        raise OSError(number, os.strerror(number))
    except OSError:
        handler.handleError(logging.makeLogRecord({"msg": "a message"}))
    handler.close()
    assert ("Traceback" in capsys.readouterr().err) == prints


def test_a_refusal_is_what_sbatch_said_in_one_line():
    assert find_refusal(MESSAGE) == f"SLURM refused the job: {SAID}"
    assert find_refusal("Job submission failed with exception:\n x") == (
        "SLURM refused the job: Job submission failed with exception: x"
    )


def test_snakemake_hears_of_a_refusal_that_cannot_be_recorded(folder, monkeypatch):
    heard, said = [], []
    own = functools.wraps(slurm_plugin.Executor._report_job_error_threadsafe)(lambda *values: heard.append(values))
    monkeypatch.setattr(slurm_plugin.Executor, "_report_job_error_threadsafe", own)
    refusing.apply()
    executor = SimpleNamespace(logger=SimpleNamespace(error=said.append))
    info = SimpleNamespace(job=make_job(input={}))
    slurm_plugin.Executor._report_job_error_threadsafe(executor, info, MESSAGE)
    assert heard == [(executor, info, MESSAGE)]
    assert said[0] == f"{RUN}: SLURM refused the job: {SAID}" and "could not be recorded" in said[1]
