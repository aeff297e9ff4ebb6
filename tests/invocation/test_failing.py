"""A failed job is explained by its own log and its own attempt, and what sbatch says is kept."""

import errno
import json
import logging
import os
import threading
from types import SimpleNamespace

import pytest
from snakemake.iocontainers import Namedlist
from snakemake_interface_logger_plugins.common import LogEvent

from howmanygpus.invocation import attempts, failing, interrupting
from howmanygpus.invocation.failing import NOT_STARTED, Failures, read_last_line, write_quietly

RUN = "small/sleeping/base/arrays_fp32_cpu_gpus1_batch64_repeat1"
LOG = "results/logs/train/run.log"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_job(rule="train", **values):
    wildcards = SimpleNamespace(run=RUN)
    values |= {"rule": SimpleNamespace(name=rule), "wildcards": wildcards, "log": [LOG], "is_group": lambda: False}
    job = Job()
    vars(job).update(values)
    return job


class Job:
    """A job of Snakemake, which is hashable."""

    jobid, attempt, restart_times = 1, 1, 0


def make_workflow(*jobs, **values):
    """Return Snakemake's workflow with these jobs to do."""
    dag = SimpleNamespace(depending={}, bfs=lambda direction, job: [], needrun_jobs=lambda **_: list(jobs))
    scheduler = SimpleNamespace(failed=set(), _lock=threading.Lock())
    return SimpleNamespace(**{"touch": False, "dag": dag, "scheduler": scheduler} | values)


def make_failures(say, *jobs, find_full_disks=lambda folders: [], **values):
    return Failures(make_workflow(*jobs, **values), say, find_full_disks)


def log(failures, event, **values):
    """Let the failures see an event of Snakemake's logger."""
    assert failures.filter(logging.makeLogRecord({"event": event, **values})), "every message is passed on"


def write_attempt(folder, name, status, reason):
    path = folder / "results" / "attempts" / RUN / name / "attempt.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"status": status, "reason": reason}))


def test_a_log_of_an_earlier_call_is_gone_when_a_job_is_handed_over(folder):
    failures = make_failures(print)
    failures.begin(make_job())
    assert (folder / LOG).read_text() == NOT_STARTED
    (folder / LOG).write_text("older")
    failures.begin(make_job("plan_runs"))
    assert (folder / LOG).read_text() == NOT_STARTED


def test_touch_leaves_all_logs(folder):
    failures = make_failures(print, make_job())
    for touch in (True, False):
        failures._workflow.touch = touch
        log(failures, LogEvent.JOB_STARTED, jobs=[1, 2])
        assert (folder / LOG).exists() != touch


def test_the_attempt_is_named_only_if_the_log_lacks_its_reason(folder):
    said = []
    failures = make_failures(said.append)
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


def test_a_full_disk_is_named_by_the_log_and_looked_for_once_a_minute(folder):
    said, checks = [], []

    def find_full_disks(folders):
        checks.append(folders)
        return ["the disk is full"]

    failures = make_failures(said.append, find_full_disks=find_full_disks)
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


@pytest.fixture
def gate(folder):
    """A failed job with its log, and the DAG in which RUN and a table wait for it."""
    log = folder / "gate.log"
    log.write_text("Traceback\nGateError: it is wrong\n")
    job = Job()
    vars(job).update(rule=SimpleNamespace(name="observe_parity"), is_group=lambda: False, log=[str(log)])
    inputs = {name: folder / f"{name}.json" for name in ("data", "weights", "verdict")}
    waiting = [make_job(input=inputs, params=SimpleNamespace(settings="{}")), make_job("make_tables")]
    dag = SimpleNamespace(depending={}, bfs=lambda direction, failed: [failed, *waiting], needrun_jobs=lambda: [])
    return job, dag


def read_blocked(folder) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((folder / "results" / "attempts" / RUN).glob("*/*.json"))]


def test_runs_blocked_by_a_failed_step_quote_its_error(folder, gate, monkeypatch):
    monkeypatch.setattr(attempts, "complete_spec", lambda *values: {})
    monkeypatch.setattr(attempts, "write_record", lambda path, record: path.write_text(json.dumps(record)))
    job, dag = gate
    for _ in range(2):
        make_failures(print, dag=dag).block(job)
    (record,) = read_blocked(folder)
    assert (record["status"], record["parity"]) == ("blocked", "not_checked")
    reason = "the step observe_parity, which the run needs, failed: GateError: it is wrong; its log is"
    assert record["reason"] == f"{reason} {folder / 'gate.log'}"
    group = SimpleNamespace(is_group=lambda: True, jobs=[job])
    make_failures(print, dag=dag).block(group)
    assert len(read_blocked(folder)) == 1, "only the newest is kept"


def test_a_failed_run_blocks_no_other_and_snakemake_goes_on_if_nothing_can_be_recorded(folder, gate):
    job, dag = gate
    said = []
    make_failures(said.append, dag=dag).block(make_job())
    assert said == [] and read_blocked(folder) == []
    dag.bfs = lambda direction, failed: [make_job(input={}, params=SimpleNamespace(settings="{}"))]
    make_failures(said.append, dag=dag).block(job)
    assert said == ["What waits for observe_parity could not be recorded: KeyError: 'data'"]


def test_a_run_of_a_program_has_no_data_and_is_recorded(folder, gate):
    """Snakemake gives an empty list of named files for an input that is empty."""
    job, dag = gate
    inputs = {name: Namedlist() for name in ("data", "weights", "verdict")}
    settings = SimpleNamespace(settings=json.dumps({"program": {"command": "sh own.sh", "files": {}, "axes": {}}}))
    unreadable = make_job(input={}, params=settings)
    dag.bfs = lambda direction, failed: [unreadable, make_job(input=inputs, params=settings)]
    said = []
    make_failures(said.append, dag=dag).block(job)
    (record,) = read_blocked(folder)
    assert (record["status"], record["spec"]["family"], record["parity"]) == ("blocked", "program", "not_checked")
    assert said == ["What waits for observe_parity could not be recorded: KeyError: 'data'"], "and the others are"


def test_a_failure_is_explained_when_it_is_logged_and_blocks_once_it_is_final(folder, gate, monkeypatch):
    job, dag = gate
    vars(job).update(jobid=1, attempt=1, restart_times=1)
    blocked = []
    monkeypatch.setattr(failing, "_record_block", lambda run, reason: blocked.append(reason) or "")
    dag.needrun_jobs = lambda **_: [job]
    failures = make_failures(print, dag=dag)
    log(failures, LogEvent.JOB_ERROR, jobid=1)
    assert blocked == [] and failures.causes == [], "the job is tried again"
    job.attempt = 2
    log(failures, LogEvent.JOB_ERROR, jobid=1)
    (cause,) = failures.causes
    assert len(blocked) == 1 and "observe_parity" in cause and "GateError: it is wrong" in cause
    log(failures, LogEvent.JOB_ERROR, jobid=2)
    failures._workflow.scheduler.failed = {job}
    failures.end_call()
    assert len(blocked) == 1, "it is recorded once, and another job is unknown"


def test_the_event_of_a_failed_run_gets_its_cause_for_the_loggers(folder):
    write_attempt(folder, "20260102T000000-2", "crashed", "a reason")
    job = make_job()
    failures = make_failures(lambda message: None, job)
    for job.attempt, is_final in ((1, False), (2, True)):
        job.restart_times = 1
        record = logging.makeLogRecord({"event": LogEvent.JOB_ERROR, "jobid": 1})
        failures.filter(record)
        assert record.cause.startswith(f"{RUN}: crashed: a reason; the attempt is kept in ")
        assert record.is_final == is_final and record.blocked == set()


@pytest.mark.parametrize("ending", ["full disk", "interrupted", "first failure ends the call"])
def test_a_failed_job_is_not_said_to_be_tried_again_if_nothing_is_started_any_more(folder, monkeypatch, ending):
    job = make_job()
    vars(job).update(attempt=1, restart_times=1)
    scheduler = SimpleNamespace(failed=set(), _lock=threading.Lock(), _executor=None)
    scheduler.exit_gracefully = lambda: setattr(scheduler, "_user_kill", "graceful")
    settings = SimpleNamespace(keep_going=ending != "first failure ends the call")
    full = ["full"] if ending == "full disk" else []
    values = {"scheduler": scheduler, "execution_settings": settings, "find_full_disks": lambda folders: full}
    failures = make_failures(lambda message: None, job, **values)
    if ending == "interrupted":
        monkeypatch.setattr(interrupting, "INTERRUPTIONS", ["SIGTERM"])
    elif ending == "first failure ends the call":
        scheduler.failed.add(make_job("observe_parity"))
    record = logging.makeLogRecord({"event": LogEvent.JOB_ERROR, "jobid": 1})
    failures.filter(record)
    assert record.is_final and failures.causes == [], "the next call tries it"


def test_a_step_that_ended_without_its_output_is_found_when_the_call_ends(folder, gate):
    failures = make_failures(print)
    job = make_job("prepare_arrays")
    (folder / LOG).parent.mkdir(parents=True)
    (folder / LOG).write_text("done, it says\n")
    failures._workflow.scheduler.failed = {job}
    failures.end_call()
    assert failures.causes == [f"prepare_arrays ({LOG}): done, it says"]


def test_a_failure_that_cannot_be_explained_is_told_and_stops_nothing(folder, monkeypatch):
    said = []
    failures = make_failures(said.append, make_job())
    monkeypatch.setattr(failing, "find_new_attempt", lambda run, older: 1 / 0)
    log(failures, LogEvent.JOB_ERROR, jobid=1)
    assert len(said) == 1 and "ZeroDivisionError" in said[0]


@pytest.fixture
def unstarted(folder, monkeypatch):
    """A function that tells of the end of job 7, and the records that this leaves."""
    monkeypatch.setattr(attempts, "ask_for_end", lambda job_id: {})
    made = []
    monkeypatch.setattr(attempts, "record_end", lambda *values: made.append(values[-2:]))
    return lambda: attempts.record_unstarted(RUN, {}, {}, "7", "its last words"), made


def test_a_job_without_an_attempt_is_recorded_with_the_end_of_its_log(unstarted):
    end, made = unstarted
    end()
    reason = "job 7 ended before the run began: its last words"
    assert made == [("job7", {"status": "crashed", "reason": reason})]


def test_the_reason_of_a_job_that_never_began_comes_first(unstarted, monkeypatch):
    end, made = unstarted
    monkeypatch.setattr(attempts, "ask_for_end", lambda job_id: {"status": "host_out_of_memory", "reason": "450M"})
    end()
    ((_, ending),) = made
    assert ending["status"] == "host_out_of_memory" and "450M" in ending["reason"]


def test_a_job_with_an_attempt_records_its_own_outcome(unstarted, folder):
    end, made = unstarted
    write_attempt(folder, "20260101T000000-job7", "crashed", "its own")
    end()
    assert made == []


def test_a_run_that_is_left_to_another_call_has_not_failed(unstarted, monkeypatch):
    end, made = unstarted
    monkeypatch.setattr(attempts, "list_running_attempts", lambda run: [("an attempt", SimpleNamespace(job="8"))])
    end()
    assert made == []


def test_a_job_that_ended_between_its_folder_and_its_record_is_recorded(unstarted, folder, monkeypatch):
    """SLURM may still call the job alive."""
    end, made = unstarted
    (folder / "results" / "attempts" / RUN / "20260101T000000-job7").mkdir(parents=True)
    monkeypatch.setattr(attempts, "list_running_attempts", lambda run: [("an attempt", SimpleNamespace(job="7"))])
    end()
    assert [name for name, _ in made] == ["job7"]


def test_the_reason_quotes_the_first_log_with_output(folder):
    logs = [folder / name for name in ("train.log", "7.log", "missing.log")]
    logs[0].write_text(NOT_STARTED)
    logs[1].write_text("one\ntwo\n\n")
    assert read_last_line(logs) == "two"
    assert read_last_line([logs[0], logs[2]]) == f"see {logs[2]}"
