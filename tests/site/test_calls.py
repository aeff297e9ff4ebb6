"""A call of Snakemake is alive while its process is there or, seen from another host, while it touches its file."""

import errno
import json
import os
import pwd
import subprocess
import time

import pytest

from hanging import HANG_S
from helpers.call_folders import work_without_calls
from helpers.messages import says
from howmanygpus.site.jobs import invocations
from howmanygpus.site.jobs.attempts import DoneByAnotherError, create_attempt
from howmanygpus.site.jobs.completing import OWNER, REPLACED
from howmanygpus.site.slurm import Job


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    return work_without_calls(tmp_path, monkeypatch)


def change(name: str, **values) -> None:
    path = invocations.CALLS / f"{name}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def list_living() -> list[str]:
    return [call.name for call in invocations.list_living_calls()]


def test_a_call_lives_as_long_as_its_process():
    invocations.announce("mine")
    assert list_living() == ["mine"] and os.environ[invocations.VARIABLE] == "mine"
    change("mine", born=invocations.read_start_ticks(os.getpid()) - 1)
    assert list_living() == [], "another process has got the number of one that ended"
    with subprocess.Popen(["true"]) as ended:
        pass
    change("mine", pid=ended.pid)
    assert list_living() == []


@pytest.mark.parametrize("place", [".", "results/runs", ".snakemake/howmanygpus/calls"])
def test_a_user_in_the_folder_of_another_is_refused_with_the_owner_and_how_two_can_share(monkeypatch, folder, place):
    invocations.announce("mine")
    (folder / "results" / "runs" / "study").mkdir(parents=True)
    invocations.refuse_folder_of_another()
    access = os.access
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != place and access(path, mode))
    with pytest.raises(invocations.InUseError) as refused:
        invocations.refuse_folder_of_another()
    owner = pwd.getpwuid(os.getuid()).pw_name
    assert says(str(refused.value), str((folder / place).resolve()), f"belongs to {owner}", "--directory", "umask 002")


def test_a_folder_that_a_group_shares_is_for_each_of_its_users(monkeypatch, folder):
    invocations.announce("mine")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    invocations.refuse_folder_of_another()


def test_seen_from_another_host_a_call_lives_while_it_touches_its_file(monkeypatch):
    monkeypatch.setattr(invocations, "TOUCH_INTERVAL_S", 0.05)
    invocations.announce("mine")
    change("mine", host="elsewhere")
    path = invocations.CALLS / "mine.json"
    long_ago = time.time() - invocations.SILENT_FOR_S - 10
    os.utime(path, (long_ago, long_ago))
    deadline = time.monotonic() + HANG_S
    while not list_living() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list_living() == ["mine"]
    monkeypatch.setattr(invocations, "SILENT_FOR_S", -1.0)
    assert list_living() == []


def test_a_call_lives_on_after_the_file_server_was_away(tmp_path, monkeypatch):
    path, utime = tmp_path / "call.json", os.utime
    outcomes = [OSError(errno.ESTALE, "stale"), None, FileNotFoundError()]
    monkeypatch.setattr(invocations, "TOUCH_INTERVAL_S", 0.01)

    def touch(touched, *times) -> None:
        if touched != path:  # by the thread of another test's call
            return utime(touched, *times)
        if outcome := outcomes.pop(0):
            raise outcome

    monkeypatch.setattr(invocations.os, "utime", touch)
    invocations._touch_periodically(path)
    assert outcomes == [], "it ends when the call has removed its file"


def test_a_new_call_marks_the_killed_calls_of_its_host_for_other_hosts():
    invocations.announce("killed")
    change("killed", pid=2**30)
    invocations.announce("mine")
    change("mine", host="elsewhere")
    assert sorted(path.name for path in invocations.CALLS.iterdir()) == ["killed.killed", "mine.json"]


def test_a_folder_is_the_same_by_another_path_and_another_one_as_a_copy(folder):
    for name in ("original", "copies"):
        (folder / name).mkdir()
    (folder / "copies" / "original").mkdir()
    (folder / "mount").symlink_to(folder)
    known = invocations.identify_folder(folder / "original")
    assert invocations.identify_folder(folder / "mount" / "original") == known
    assert invocations.identify_folder(folder / "copies" / "original") != known


def test_the_files_of_a_copied_folder_are_not_its_calls(folder):
    invocations.announce("mine")
    change("mine", folder_id="original-1")
    assert list_living() == []


def test_jobs_of_a_call_are_found_by_the_end_of_their_names(monkeypatch):
    names = {"7": "jax_sharding_gpus4_mine", "8": "pytorch_ddp_gpus1_other", "9": "mine", "10": ""}
    queue = [Job(job_id, "PENDING", name=name) for job_id, name in names.items()]
    monkeypatch.setattr(invocations, "list_queue", lambda states, own: queue)
    assert invocations.list_jobs(["mine"]) == ["7", "9"]
    assert invocations.list_jobs(["mine", "other"]) == ["7", "8", "9"]
    assert invocations.list_jobs([]) == []


def start_older_attempt(call: str) -> None:
    """Start an attempt of this process, for another call."""
    os.environ[invocations.VARIABLE] = call
    create_attempt("run", {}, {}).path.rename("results/attempts/run/older")


def test_an_attempt_of_a_living_call_is_left_alone():
    invocations.announce("other")
    start_older_attempt("other")
    os.environ[invocations.VARIABLE] = "mine"
    with pytest.raises(DoneByAnotherError, match=f"process {os.getpid()} on .* is doing this run, for another call"):
        create_attempt("run", {}, {})
    assert [path.name for path in os.scandir("results/attempts/run")] == ["older"], "no attempt was begun"


@pytest.mark.parametrize("call", ["gone", "mine"])
def test_an_attempt_whose_call_is_gone_or_the_same_is_replaced(folder, call):
    start_older_attempt(call)
    os.environ[invocations.VARIABLE] = "mine"
    attempt = create_attempt("run", {}, {})
    replaced = json.loads((folder / "results/attempts/run/older" / REPLACED).read_text())
    assert replaced["by"].startswith(f"process {os.getpid()} on ")
    assert json.loads((attempt.path / OWNER).read_text())["folder"] == str(folder)


def test_an_attempt_that_was_copied_from_another_folder_is_left_alone(folder):
    start_older_attempt("gone")
    owner = folder / "results/attempts/run/older" / OWNER
    owner.write_text(json.dumps(json.loads(owner.read_text()) | {"folder_id": "original-1"}))
    create_attempt("run", {}, {})
    assert not owner.with_name(REPLACED).exists()


def test_an_attempt_without_a_scheduler_is_no_job_even_if_its_cores_are_not_bound():
    owner = json.loads((create_attempt("run", {}, {"bind_cores": False}).path / OWNER).read_text())
    assert owner["job"] is None and owner["pid"] == os.getpid()
