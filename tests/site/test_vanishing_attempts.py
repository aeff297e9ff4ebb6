"""Attempts that another call publishes, and calls that end, while somebody looks at them are left out."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.call_folders import work_without_calls
from howmanygpus.invocation import attempts
from howmanygpus.report import outcomes
from howmanygpus.site import retrying
from howmanygpus.site.jobs import attempts as launching
from howmanygpus.site.jobs import completing, invocations
from howmanygpus.site.jobs.attempts import replace_older_attempts
from howmanygpus.site.jobs.completing import ATTEMPTS, OWNER, REPLACED, Owner, complete_attempts, list_running_attempts
from howmanygpus.site.slurm import Job


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    return work_without_calls(tmp_path, monkeypatch)


def vanish(monkeypatch, path: Path, name: str) -> None:
    """Remove a file or folder when the first file of a name is read, as another process might."""
    read_text = Path.read_text

    def read(self, *options, **more) -> str:
        if self.name == name and path.is_dir():
            shutil.rmtree(path)
        elif self.name == name:
            path.unlink(missing_ok=True)
        return read_text(self, *options, **more)

    monkeypatch.setattr(Path, "read_text", read)


def write_attempt(name: str, job: str, owner: str | None = None) -> Path:
    """Write a running attempt of this process. job: of its launcher. owner: the job that is its own, if one is."""
    attempt = ATTEMPTS / "run" / name
    attempt.mkdir(parents=True)
    host, pid = os.uname().nodename, os.getpid()
    Owner("here", invocations.identify_folder(), None, owner, host, pid, invocations.read_start_ticks(pid)).write(
        attempt / OWNER
    )
    (attempt / "attempt.json").write_text(json.dumps({"status": "running", "reason": "", "job": {"id": job}}))
    return attempt


def test_an_attempt_that_vanishes_does_not_work(monkeypatch):
    stays, vanishes = write_attempt("stays", "7"), write_attempt("vanishes", "8")
    vanish(monkeypatch, vanishes, OWNER)
    assert [attempt for attempt, _ in list_running_attempts()] == [stays]


@pytest.mark.parametrize("file", ["attempt.json", OWNER])
def test_an_attempt_that_vanishes_is_not_settled(monkeypatch, file):
    stays, vanishes = write_attempt("stays", "7"), write_attempt("vanishes", "8")
    vanish(monkeypatch, vanishes, file)
    client = SimpleNamespace(look_up=lambda job: Job(job, "TIMEOUT"))
    assert complete_attempts(slurm=client) == [stays / "attempt.json"]
    assert not vanishes.exists()


def test_output_written_during_the_query_of_slurm_is_kept():
    path = write_attempt("ends", "7") / "attempt.json"
    last_words = {"status": "crashed", "reason": "ValueError: no such layer", "job": {"id": "7"}}

    def look_up(job: str) -> Job:
        path.write_text(json.dumps(last_words))
        return Job(job, "FAILED")

    assert (
        complete_attempts(slurm=SimpleNamespace(look_up=look_up)) == [] and json.loads(path.read_text()) == last_words
    )


@pytest.mark.parametrize(("job", "older", "cancelled"), [("9", "7", ["7"]), ("9", None, []), (None, "7", [])])
def test_the_job_of_an_older_attempt_is_cancelled_if_it_is_no_packed_one(monkeypatch, job, older, cancelled):
    """The allocation of a packed attempt may be an interactive one of the user's, or do other runs."""
    told: list[str] = []
    monkeypatch.setattr(launching, "cancel", told.extend)
    monkeypatch.setattr(completing, "slurm", SimpleNamespace(find_job=lambda job_id: Job(job_id, "RUNNING")))
    stays, vanishes = write_attempt("stays", "7", owner=older), write_attempt("vanishes", "8", owner="8")
    vanish(monkeypatch, vanishes, OWNER)
    replace_older_attempts("run", replace(Owner.read(stays / OWNER), job=job))
    assert told == cancelled and (stays / REPLACED).exists()


def read_for_growth(_) -> list[str]:
    """Return the jobs of the attempts that decide what the next one requests."""
    return [record["job"]["id"] for record in retrying.read_attempts_since(ATTEMPTS / "run", "")]


def read_new(monkeypatch) -> list[str]:
    monkeypatch.setattr(attempts, "complete_attempts", lambda folder: [])
    found = attempts.find_new_attempt("run", set())
    return [found[1]["job"]["id"]] if found else []


def read_reported(monkeypatch) -> list[str]:
    monkeypatch.setattr(outcomes, "read_record", lambda path: json.loads(path.read_text()))
    return [record["job"]["id"] for record in outcomes.read_run_attempts(ATTEMPTS / "run")]


@pytest.mark.parametrize("read", [read_for_growth, read_new, read_reported])
def test_a_vanished_attempt_is_ignored(monkeypatch, read):
    write_attempt("stays", "7")
    vanish(monkeypatch, write_attempt("vanishes", "8"), "attempt.json")
    assert read(monkeypatch) == ["7"]


def test_attempts_that_were_set_aside_are_not_reported(monkeypatch):
    write_attempt("stays", "7")
    write_attempt("set-aside-1/older", "8")
    assert read_reported(monkeypatch) == ["7"]


@pytest.fixture
def ended() -> Path:
    """Return the file of a call that sorts first and is no longer there when a later one is read."""
    invocations.announce("ended")
    invocations.announce("mine")
    return invocations.CALLS / "ended.json"


def test_a_call_that_ends_does_not_live(monkeypatch, ended):
    vanish(monkeypatch, ended, ended.name)
    assert [call.name for call in invocations.list_living_calls()] == ["mine"]


def test_a_call_of_another_host_that_ends_while_its_file_is_judged_does_not_live(monkeypatch, ended):
    ended.write_text(json.dumps(json.loads(ended.read_text()) | {"host": "elsewhere"}))
    find_now = invocations._read_file_system_time
    monkeypatch.setattr(
        invocations, "_read_file_system_time", lambda folder: (ended.unlink(missing_ok=True), find_now(folder))[1]
    )
    assert [call.name for call in invocations.list_living_calls()] == ["mine"]


def test_a_call_that_ends_has_no_jobs(monkeypatch, ended, folder):
    monkeypatch.setattr(invocations, "list_jobs", lambda names, own: names)
    vanish(monkeypatch, ended, ended.name)
    assert invocations.list_jobs_of_folder(folder) == ["mine"]


def test_a_file_that_a_killed_call_left_half_written_has_no_jobs(monkeypatch, ended, folder):
    monkeypatch.setattr(invocations, "list_jobs", lambda names, own: names)
    ended.with_name(".half.json.abcd1234").touch()
    assert invocations.list_jobs_of_folder(folder) == ["ended", "mine"]


def test_a_call_that_ends_is_not_marked_as_killed(monkeypatch, ended):
    ended.write_text(json.dumps(json.loads(ended.read_text()) | {"pid": 2**30}))
    read_start_ticks = invocations.read_start_ticks

    def end(pid: int) -> int | None:
        ended.unlink(missing_ok=True)
        return read_start_ticks(pid)

    monkeypatch.setattr(invocations, "read_start_ticks", end)
    invocations.announce("next")
    assert sorted(path.name for path in invocations.CALLS.iterdir()) == ["mine.json", "next.json"]
