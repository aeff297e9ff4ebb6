"""Attempts that a full disk ended are named. Results of version 0.1 are refused, and looking for them is cheap."""

import errno
import json
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.fake_slurm import AWAY, FORGOTTEN, pretend
from helpers.folder_listings import noticing
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.site.jobs import completing
from howmanygpus.site.jobs.completing import OlderResultsError, Owner, complete_attempts, refuse_older_results
from howmanygpus.site.jobs.invocations import identify_folder, read_start_ticks
from howmanygpus.site.jobs.ledger import describe_job
from howmanygpus.site.slurm import Job

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
    assert complete_attempts(tmp_path) == []
    assert json.loads(path.read_text())["status"] == status


def test_a_record_that_a_full_disk_does_not_take_is_left_to_a_later_call(tmp_path, monkeypatch):
    path = tmp_path / "attempt" / "attempt.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"status": "crashed", "reason": "[Errno 122] Disk quota exceeded"}))
    for number, refused in ((errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EIO, True)):

        def write(path, record, number=number):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(completing, "write_json_atomic", write)
        with pytest.raises(OSError) if refused else nullcontext():
            complete_attempts(tmp_path)


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
    born = read_start_ticks(os.getpid()) - ticks
    attempt, pid, host = tmp_path / "attempt", os.getpid(), os.uname().nodename
    attempt.mkdir()
    record = {"status": "running", "reason": "", "pid": pid, "host": {"hostname": host}}
    (attempt / "attempt.json").write_text(json.dumps(record))
    Owner("here", identify_folder(), None, None, host, pid, born).write(attempt / completing.OWNER)
    complete_attempts(tmp_path)
    assert json.loads((attempt / "attempt.json").read_text())["status"] == status


def answer(state: str) -> SimpleNamespace:
    """Return a client of SLURM by which each job is in one state, and whose queue has none."""
    return SimpleNamespace(look_up=lambda job: Job(job, state), find_job=lambda job: None)


@pytest.mark.parametrize("state", ["RUNNING", "REQUEUE_HOLD", "SPECIAL_EXIT", "STOPPED", "SIGNALING", "RESV_DEL_HOLD"])
def test_a_job_that_has_not_ended_leaves_its_attempt_running(tmp_path, state):
    path = tmp_path / "attempt" / "attempt.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"status": "running", "reason": "", "job": {"id": "7", "restarts": 0}}))
    assert complete_attempts(tmp_path, answer(state)) == [] and json.loads(path.read_text())["status"] == "running"


@pytest.fixture
def packed(tmp_path) -> Path:
    """Return the record of a running attempt in an allocation that goes on; its process, on this host, is gone."""
    path = tmp_path / "run" / "attempt" / "attempt.json"
    path.parent.mkdir(parents=True)
    job = {"id": "7", "restarts": 0, "packed": True}
    record = {"status": "running", "reason": "", "pid": 2**30, "host": {"hostname": os.uname().nodename}, "job": job}
    path.write_text(json.dumps(record))
    return path


def test_a_packed_attempt_ends_before_its_allocation(packed, tmp_path):
    assert complete_attempts(tmp_path, answer("RUNNING")) == [packed]
    assert json.loads(packed.read_text())["status"] == "killed"


def test_a_packed_attempt_on_another_host_ends_with_its_allocation(packed, tmp_path):
    packed.write_text(packed.read_text().replace(os.uname().nodename, "elsewhere"))
    assert complete_attempts(tmp_path, answer("RUNNING")) == []
    assert complete_attempts(tmp_path, answer("TIMEOUT")) == [packed]
    assert json.loads(packed.read_text())["status"] == "time_limit"


SCONTROL = {"none": None, "lost controller": AWAY, "forgotten": FORGOTTEN}


@pytest.mark.parametrize("status", ["running", "interrupted"])
@pytest.mark.parametrize("answer", SCONTROL)
def test_a_job_unknown_to_slurm_may_still_run(tmp_path, monkeypatch, answer, status):
    """As where somebody makes tables on a workstation from a folder in which a cluster's jobs are at work."""
    programs, attempt = tmp_path / "programs", tmp_path / "run" / "attempt"
    attempt.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(programs))
    if script := SCONTROL[answer]:
        pretend(monkeypatch, programs, "scontrol", script)
    record = {"status": status, "reason": "", "job": {"id": "7", "restarts": 0}}
    (attempt / "attempt.json").write_text(json.dumps(record))
    owner = Owner("here", identify_folder(), None, "7", "elsewhere", 1, None)
    is_working = answer != "forgotten" and status == "running"
    assert owner.is_under_way(attempt) == is_working
    complete_attempts(tmp_path)
    found = json.loads((attempt / "attempt.json").read_text())
    if answer == "forgotten":
        assert found["settled"] and found["status"] == ("killed" if status == "running" else "interrupted")
    else:
        assert found == record


def test_a_job_with_unknown_restarts_is_no_older_start():
    job = describe_job("7", None)
    assert job["restarts"] is None
    assert not completing.was_requeued({"job": job}, Job("7", "RUNNING", restarts=1))


RAW = {
    "exit status": {"status": "crashed", "reason": "exit status 1", "exit_status": 1},
    "error of the launcher": {"status": "crashed", "reason": "RendezvousError: no process is there"},
    "terminated": {"status": "crashed", "reason": "exit status 143", "exit_status": 143},
    "deadline": {"status": "time_limit", "reason": "not done after 60 s"},
}
"""What a launcher records of its end."""


@pytest.mark.parametrize(
    ("raw", "state", "expected"),
    [
        ("exit status", "RUNNING", ("crashed", "ValueError: no such layer")),
        ("exit status", "TIMEOUT", ("crashed", "ValueError: no such layer")),
        ("error of the launcher", "RUNNING", ("no_rendezvous", "RendezvousError: no process is there")),
        ("terminated", "RUNNING", None),
        ("terminated", "PREEMPTED", ("preempted", "SLURM gave the job's nodes to another (job 7)")),
        ("terminated", "COMPLETED", ("crashed", "exit status 143")),
        ("deadline", "RUNNING", ("time_limit", "not done after 60 s")),
    ],
)
def test_what_a_launcher_records_is_explained_once(tmp_path, raw, state, expected):
    attempt = AttemptFolder(tmp_path / "run" / "attempt")
    attempt.path.mkdir(parents=True)
    record = RAW[raw] | {"job": {"id": "7", "restarts": 0}}
    attempt.record.write_text(json.dumps(record))
    if raw == "exit status":
        attempt.error_of(0).write_text("Traceback (most recent call last):\nValueError: no such layer\n")
    assert complete_attempts(tmp_path, answer(state)) == []
    found = json.loads(attempt.record.read_text())
    if expected is None:
        assert found == record, "SLURM cannot tell yet"
        return
    assert (found["status"], found["reason"], found["settled"]) == (*expected, True)
    attempt.error_of(0).write_text("another error")
    complete_attempts(tmp_path, answer(state))
    assert json.loads(attempt.record.read_text()) == found


GRACE = {"started_at": 10.0, "preempted_at": 20.0}


@pytest.mark.parametrize(
    ("raw", "job", "expected"),
    [
        ("exit status", Job("7", "FAILED", **GRACE), "preempted"),
        ("error of the launcher", Job("7", "FAILED", **GRACE), "preempted"),
        ("terminated", Job("7", "FAILED", **GRACE), "preempted"),
        ("exit status", Job("7", "COMPLETING", **GRACE), None),
        ("exit status", Job("7", "FAILED", started_at=10.0, preempted_at=5.0), "crashed"),
        ("exit status", Job("7", "PENDING", **GRACE, restarts=1), "crashed"),
        ("deadline", Job("7", "FAILED", **GRACE), "time_limit"),
    ],
)
def test_an_attempt_that_fails_in_the_grace_time_of_a_preemption_is_preempted(tmp_path, raw, job, expected):
    """Its processes got the signal that SLURM gives when the grace time begins. SLURM calls the job FAILED."""
    attempt = AttemptFolder(tmp_path / "run" / "attempt")
    attempt.path.mkdir(parents=True)
    attempt.record.write_text(json.dumps(RAW[raw] | {"job": {"id": "7", "restarts": 0}}))
    complete_attempts(tmp_path, SimpleNamespace(look_up=lambda job_id: job, find_job=lambda job_id: job))
    found = json.loads(attempt.record.read_text())
    assert found.get("settled", False) == (expected is not None)
    assert found["status"] == (expected or RAW[raw]["status"])


def test_a_launcher_that_a_full_disk_kept_from_recording_its_end_is_explained_by_the_disk(tmp_path, monkeypatch):
    path = tmp_path / "attempt" / "attempt.json"
    path.parent.mkdir()
    host = {"hostname": os.uname().nodename}
    path.write_text(json.dumps({"status": "running", "reason": "", "pid": 2**30, "host": host}))
    monkeypatch.setattr(completing, "explain_full_disk", lambda attempt: {"status": "disk_full"})
    assert complete_attempts(tmp_path) == [path] and json.loads(path.read_text())["status"] == "disk_full"


def test_secrets_in_what_an_attempt_leaves_behind_are_hidden(tmp_path, monkeypatch):
    monkeypatch.setenv("SITE_TOKEN", "abcdefgh")
    attempt = AttemptFolder(tmp_path / "attempt")
    attempt.path.mkdir()
    attempt.spec.write_text('{"command": "https://me:word@host/"}')
    (attempt.path / "report.jsonl").write_text('{"token": "abcdefgh"}')
    spec = {"command": "https://host/"}
    attempt.record.write_text(
        json.dumps({"status": "crashed", "reason": "exit status 1", "exit_status": 1, "spec": spec})
    )
    complete_attempts(tmp_path)
    assert (attempt.path / "report.jsonl").read_text() == '{"token": "$SITE_TOKEN"}'
    assert json.loads(attempt.spec.read_text()) == spec
