"""A job that waits for the machine says for whom, and is billed for the time in which it had the machine alone."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from helpers.call_folders import work_without_calls
from helpers.messages import says
from helpers.specs import make_spec
from helpers.stored_runs import plan_of
from howmanygpus.base import machine_lock
from howmanygpus.base.machine_lock import HELD, take_turn
from howmanygpus.base.messages import VARIABLE
from howmanygpus.invocation import run_results
from howmanygpus.invocation.run_results import sum_device_hours
from howmanygpus.report.accounting import account
from howmanygpus.report.tables.jobs import count_hours, tabulate
from howmanygpus.site.jobs import ledger
from howmanygpus.site.jobs.invocations import print_job_messages
from howmanygpus.site.jobs.ledger import complete_and_list_jobs, recorded, share_by_seconds
from project import ROOT

SIZE = {"device": "cpu", "num_gpus": 2, "num_nodes": 1}
BILLING = {"devices_per_node": 4, "billed": "device", "price_per_hour": 3.0, "currency": "EUR"}
WAIT_S, HOLD_S, LONGEST_S = 1.5, 0.5, 30.0
HOLDER = """
import sys, time
from pathlib import Path
from howmanygpus.base import machine_lock

exec(sys.argv[3])
with machine_lock.take_turn(Path(sys.argv[1]), "results/runs/theirs"):
    print("holds", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv(HELD, "")
    return work_without_calls(tmp_path, monkeypatch)


def start_process(lock, seconds, before=""):
    """Let another process take the machine when it is free. before: what it does before."""
    variables = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    command = [sys.executable, "-c", HOLDER, str(lock), str(seconds), before]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def start_holder(lock, seconds):
    """Let another process have the machine."""
    holder = start_process(lock, seconds)
    # A stopped one would have the machine for ever if a test waits for words that nobody says.
    timer = threading.Timer(LONGEST_S, holder.kill)
    timer.daemon = True
    timer.start()
    assert holder.stdout.readline() == "holds\n"
    return holder


def test_a_wait_names_the_holder_its_work_and_its_start_at_once(folder, monkeypatch, capfd):
    monkeypatch.setenv(VARIABLE, "mine")
    said = []
    print_job_messages(said.append)
    holder = start_holder(folder / "lock", WAIT_S)
    started = datetime.now(UTC)
    with take_turn(folder / "lock", "results/runs/ours"):
        log = capfd.readouterr().err
    (waiting,) = said
    assert waiting in log
    assert waiting.startswith("results/runs/ours: ")
    for word in (f"process {holder.pid} ", str(folder), "results/runs/theirs"):
        assert word in waiting
    since = next(word for word in waiting.replace(",", " ").split() if re.match(r"20\d\d-", word))
    assert abs(datetime.fromisoformat(since) - started) < timedelta(seconds=60)


def test_a_wait_says_how_many_others_wait(folder):
    holder = start_holder(folder / "lock", LONGEST_S)
    others = [start_process(folder / "lock", 0) for _ in range(2)]
    try:
        for other in others:
            assert says(other.stderr.readline(), "waits for the machine")
        killed = subprocess.Popen(["true"])
        killed.wait()
        (folder / "lock.waiting" / str(killed.pid)).touch()
        others.append(start_process(folder / "lock", 0))
        assert says(others[-1].stderr.readline(), "waits for the machine", "2 other jobs wait")
    finally:
        holder.kill()
    for process in others:
        process.communicate()
        assert process.returncode == 0


@pytest.mark.parametrize("is_early", [True, False])
def test_a_wait_for_a_stopped_job_says_how_it_goes_on(folder, is_early):
    """The job is stopped before another one waits for it, or while it waits."""
    holder = start_holder(folder / "lock", LONGEST_S)
    if is_early:
        holder.send_signal(signal.SIGSTOP)
    waiter = start_process(folder / "lock", 0, "machine_lock.LOOK_S = 0.1")
    assert "waits for the machine" in waiter.stderr.readline()
    holder.send_signal(signal.SIGSTOP)
    try:
        assert says(waiter.stderr.readline(), f"process {holder.pid} ", "is stopped", f"kill -CONT {holder.pid}")
    finally:
        holder.kill()
    _, said = waiter.communicate()
    assert said == "results/runs/theirs: has the machine now\n" and waiter.returncode == 0


def test_nothing_is_said_without_a_wait(folder, capfd):
    with take_turn(folder / "lock", "results/runs/ours"):
        pass
    with take_turn(folder / "lock", "results/runs/ours"):
        pass
    assert capfd.readouterr().err == ""


@pytest.fixture
def clock(monkeypatch):
    """Return the clock of a job: a wait for the machine takes WAIT_S on it, and a test what it adds to `now`."""
    clock = SimpleNamespace(now=1.8e9)
    clock.time = clock.monotonic = lambda: clock.now
    monkeypatch.setattr(machine_lock, "time", clock)
    read_date = SimpleNamespace(now=lambda zone: datetime.fromtimestamp(clock.now, zone))
    monkeypatch.setattr(run_results, "datetime", read_date)

    def wait(message):
        clock.now += WAIT_S

    monkeypatch.setattr(machine_lock, "print_to_call", wait)
    return clock


def test_a_job_is_billed_without_its_waits(folder, clock):
    start_holder(folder / "lock", WAIT_S)
    began = clock.now
    with recorded("gate", "g", SIZE, packed=False, framework="f"):
        for _ in range(2):
            with take_turn(folder / "lock", "the gate"):
                clock.now += HOLD_S
            clock.now += WAIT_S
        assert clock.now == pytest.approx(began + 3 * WAIT_S + 2 * HOLD_S), "the first turn had to wait"
        jobs = complete_and_list_jobs()
        assert 3600 * sum_device_hours(jobs, {}) / 2 == pytest.approx(2 * HOLD_S)
    (hours,) = count_hours(complete_and_list_jobs()).values()
    assert 3600 * hours == pytest.approx(2 * HOLD_S)


def test_a_budget_counts_no_hours_of_waiting_jobs_and_past_hours_of_running_ones(folder, clock):
    start_holder(folder / "lock", WAIT_S)
    with recorded("run", "s/a", SIZE, packed=False, attempt="none"):
        clock.now += WAIT_S
        assert sum_device_hours(complete_and_list_jobs(), {}) == 0
        with take_turn(folder / "lock", "results/runs/s/a"):
            clock.now += HOLD_S
            assert 3600 * sum_device_hours(complete_and_list_jobs(), {}) / 2 == pytest.approx(HOLD_S)


def test_a_job_that_never_held_the_machine_costs_nothing():
    with pytest.raises(SystemExit), recorded("gate", "g", SIZE, packed=False, framework="f"):
        time.sleep(HOLD_S)
        sys.exit(1)
    assert list(count_hours(complete_and_list_jobs()).values()) == [0.0]


def test_a_record_of_an_earlier_version_counts_from_start_to_end():
    with recorded("gate", "g", SIZE, packed=False, framework="f"):
        pass
    (path,) = ledger.JOBS.rglob("*.json")
    record = json.loads(path.read_text())
    older = {key: value for key, value in record.items() if key not in ("held_s", "holding_since")}
    path.write_text(json.dumps(older | {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T01:00:00Z"}))
    assert list(count_hours(complete_and_list_jobs()).values()) == [1.0]


@pytest.mark.parametrize(("held_at", "hours"), [("2026-01-01T00:30:00+00:00", 0.5), (None, 0.0)])
def test_a_failed_attempt_is_billed_from_when_it_had_the_machine(held_at, hours):
    times = {"started_at": "2026-01-01T00:00:00+00:00", "finished_at": "2026-01-01T01:00:00+00:00"}
    attempt = {"status": "crashed", "spec": SIZE, "held_at": held_at, **times}
    assert account(None, [attempt], BILLING)["billed_device_hours"] == 2 * hours


@pytest.mark.parametrize("kind", ["gate", "batch_search"])
def test_a_job_that_serves_several_studies_is_divided_among_them(kind):
    ledger = {}
    for name, shares in (("shared", {"s": 0.25, "other": 0.75}), ("not_mine", {"other": 1.0})):
        with recorded(kind, name, SIZE, packed=False, framework="f", shares=shares) as job:
            pass
        ledger[name] = job | {"status": "completed", "held_s": 3600.0}
    for study, hours in (("s", 0.25), ("other", 1.75), ("third", 0.0)):
        table = tabulate(plan_of(make_spec(), billing={"cpu": BILLING}) | {"study": study}, ledger)
        assert table["hours"].sum() == hours and set(table["study"]) <= {study}
        assert table["billed_device_hours"].sum() == 2 * hours


def test_parts_are_weighted_by_seconds_or_equally_if_any_is_unknown():
    studies = {"small": ["a", "b"], "large": ["b"]}
    assert share_by_seconds(studies, {"small": 1.0, "large": 3.0}) == {"a": 0.125, "b": 0.875}
    assert share_by_seconds(studies, {"small": 1.0}) == {"a": 0.25, "b": 0.75}
