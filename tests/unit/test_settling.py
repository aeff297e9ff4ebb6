"""Attempts that a full disk ended are named. Results of version 0.1 are refused, and looking for them is cheap."""

import errno
import json
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from howmanygpus.train.host import slurm
from howmanygpus.train.start import settling
from howmanygpus.train.start.calls import find_birth, identify_folder
from howmanygpus.train.start.settling import (
    OlderResultsError,
    Owner,
    cancel_older_attempts,
    refuse_older_results,
    settle,
)
from listing import noticing

RUN = Path("study", "framework", "base", "cell")


@pytest.mark.parametrize("file", [".publishing.lock", "20260101T000000-7/attempt.json"])
def test_attempts_of_version_0_1_are_refused_with_the_remedy(tmp_path, file):
    path = tmp_path / RUN / file
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(OlderResultsError, match=rf"{tmp_path / RUN} was written by version 0\.1.*mv results results-0"):
        refuse_older_results(tmp_path)


@pytest.mark.parametrize(
    ("reason", "status"),
    [("OSError: [Errno 122] Disk quota exceeded", "disk_full"), ("ValueError: no such layer", "crashed")],
)
def test_an_attempt_that_a_quota_ended_is_disk_full(tmp_path, reason, status):
    path = tmp_path / "attempt" / "attempt.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"status": "crashed", "reason": reason}))
    assert settle(tmp_path) == []
    assert json.loads(path.read_text())["status"] == status


def test_a_record_that_a_full_disk_does_not_take_is_left_to_a_later_call(tmp_path, monkeypatch):
    path = tmp_path / "attempt" / "attempt.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"status": "crashed", "reason": "[Errno 122] Disk quota exceeded"}))
    for number, refused in ((errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EIO, True)):

        def write(path, record, number=number):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(settling, "write_json_atomic", write)
        with pytest.raises(OSError) if refused else nullcontext():
            settle(tmp_path)


@pytest.mark.parametrize("file", ["cell.log", "cell/notes.txt"])
def test_logs_and_other_folders_are_not_attempts(tmp_path, file):
    path = tmp_path / RUN.parent / file
    path.parent.mkdir(parents=True)
    path.touch()
    refuse_older_results(tmp_path)
    refuse_older_results(tmp_path / "missing")


def test_each_folder_of_logs_is_listed_once(tmp_path):
    for framework in range(20):
        folder = tmp_path / "study" / str(framework) / "base"
        folder.mkdir(parents=True)
        for cell in range(50):
            (folder / f"{cell}.log").touch()
    listed = []
    with noticing(listed.append):
        refuse_older_results(tmp_path)
    assert len(listed) == len(set(listed)) == 42


@pytest.mark.parametrize(("ticks", "status"), [(0, "running"), (1, "killed")])
def test_a_later_process_of_the_same_number_is_not_the_launcher(tmp_path, ticks, status):
    born = find_birth(os.getpid()) - ticks
    attempt, pid, host = tmp_path / "attempt", os.getpid(), os.uname().nodename
    attempt.mkdir()
    record = {"status": "running", "reason": "", "pid": pid, "host": {"hostname": host}}
    (attempt / "attempt.json").write_text(json.dumps(record))
    Owner("here", identify_folder(), None, None, host, pid, born).write(attempt / settling.OWNER)
    settle(tmp_path)
    assert json.loads((attempt / "attempt.json").read_text())["status"] == status


@pytest.mark.parametrize("state", ["RUNNING", "REQUEUE_HOLD", "SPECIAL_EXIT", "STOPPED", "SIGNALING", "RESV_DEL_HOLD"])
def test_a_job_that_has_not_ended_leaves_its_attempt_running(tmp_path, monkeypatch, state):
    path = tmp_path / "attempt" / "attempt.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"status": "running", "reason": "", "job": {"id": "7", "restarts": 0}}))
    monkeypatch.setattr(settling, "ask_for_job", lambda job: {"JobId": job, "JobState": state, "Restarts": "0"})
    assert settle(tmp_path) == [] and json.loads(path.read_text())["status"] == "running"


@pytest.fixture
def packed(tmp_path, monkeypatch) -> Path:
    """Return the record of a running attempt in an allocation that goes on; its process, on this host, is gone."""
    path = tmp_path / "run" / "attempt" / "attempt.json"
    path.parent.mkdir(parents=True)
    job = {"id": "7", "restarts": 0, "packed": True}
    record = {"status": "running", "reason": "", "pid": 2**30, "host": {"hostname": os.uname().nodename}, "job": job}
    path.write_text(json.dumps(record))
    monkeypatch.setattr(settling, "ask_for_job", lambda job: {"JobId": job, "JobState": "RUNNING", "Restarts": "0"})
    return path


def test_the_allocation_of_a_packed_attempt_is_not_cancelled(packed, monkeypatch):
    """It may be an interactive one of the user's, or do other runs."""
    cancelled = []
    monkeypatch.setattr(settling, "cancel", cancelled.append)
    cancel_older_attempts(packed.parent.parent, "8")
    assert cancelled == []


def test_a_packed_attempt_ends_before_its_allocation(packed, tmp_path):
    assert settle(tmp_path) == [packed] and json.loads(packed.read_text())["status"] == "killed"


def test_a_packed_attempt_on_another_host_ends_with_its_allocation(packed, tmp_path, monkeypatch):
    packed.write_text(packed.read_text().replace(os.uname().nodename, "elsewhere"))
    assert settle(tmp_path) == []
    monkeypatch.setattr(settling, "ask_for_job", lambda job: {"JobId": job, "JobState": "TIMEOUT", "TimeLimit": "1"})
    assert settle(tmp_path) == [packed] and json.loads(packed.read_text())["status"] == "time_limit"


SCONTROL = {
    "none": None,
    "lost controller": "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1",
    "forgotten": "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1",
}


@pytest.mark.parametrize("status", ["running", "interrupted"])
@pytest.mark.parametrize("answer", SCONTROL)
def test_a_job_of_which_slurm_says_nothing_may_still_run(tmp_path, monkeypatch, answer, status):
    """As where somebody makes tables on a workstation from a folder in which a cluster's jobs are at work."""
    programs, attempt = tmp_path / "programs", tmp_path / "run" / "attempt"
    programs.mkdir()
    attempt.mkdir(parents=True)
    if script := SCONTROL[answer]:
        (programs / "scontrol").write_text(f"#!/bin/sh\n{script}\n")
        (programs / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    record = {"status": status, "reason": "", "job": {"id": "7", "restarts": 0}}
    (attempt / "attempt.json").write_text(json.dumps(record))
    owner = Owner("here", identify_folder(), None, "7", "elsewhere", 1, None)
    is_working = answer != "forgotten" and status == "running"
    assert owner.is_at_work(attempt) == is_working
    settle(tmp_path)
    found = json.loads((attempt / "attempt.json").read_text())
    if answer == "forgotten":
        assert found["settled"] and found["status"] == ("killed" if status == "running" else "interrupted")
    else:
        assert found == record


def test_a_job_whose_restarts_nobody_knows_is_no_older_start(tmp_path, monkeypatch):
    monkeypatch.setattr(slurm, "_call", lambda command: None)
    job = slurm.describe_job("7")
    assert job["restarts"] is None
    assert not settling.is_older_start({"job": job}, {"JobState": "RUNNING", "Restarts": "1"})
