"""A failed job is explained by its own log and its own attempt, and what sbatch says is kept."""

import errno
import functools
import json
import logging
import os
from types import SimpleNamespace

import pytest
import snakemake_executor_plugin_slurm as slurm_plugin
from snakemake.iocontainers import Namedlist

from howmanygpus.call import attempts
from howmanygpus.snakemake_patches import failing, submitting
from howmanygpus.snakemake_patches.failing import NOT_STARTED, Failures, write_quietly
from howmanygpus.snakemake_patches.submitting import find_last_words, find_refusal

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
    too_many = MESSAGE.replace("Batch job", "QOSMaxSubmitJobPerUserLimit sbatch: error: Batch job")
    assert find_refusal(too_many).endswith(
        "Invalid account; lower `jobs` in config.yaml of the profile: so many jobs are submitted at once"
    )
    assert find_refusal("Job submission failed with exception:\n x") == (
        "SLURM refused the job: Job submission failed with exception: x"
    )


def test_snakemake_hears_of_a_refusal_that_cannot_be_recorded(folder, monkeypatch):
    heard, said = [], []
    own = functools.wraps(slurm_plugin.Executor._report_job_error_threadsafe)(lambda *values: heard.append(values))
    monkeypatch.setattr(slurm_plugin.Executor, "_report_job_error_threadsafe", own)
    submitting.apply()
    executor = SimpleNamespace(logger=SimpleNamespace(error=said.append))
    info = SimpleNamespace(job=make_job(input={}))
    slurm_plugin.Executor._report_job_error_threadsafe(executor, info, MESSAGE)
    assert heard == [(executor, info, MESSAGE)]
    assert said[0] == f"{RUN}: SLURM refused the job: {SAID}" and "could not be recorded" in said[1]


def test_a_repeated_refusal_is_told_once_and_another_one_again(folder):
    said = []
    report = submitting._keep_refusals(lambda *values: None)
    (folder / LOG).parent.mkdir(parents=True)
    executor, info = SimpleNamespace(logger=SimpleNamespace(error=said.append)), SimpleNamespace(job=make_job("other"))
    for message in (MESSAGE, MESSAGE, MESSAGE.replace("account", "partition")):
        report(executor, info, message)
    assert [words.rpartition(" ")[2] for words in said] == ["account", "partition"]
    assert (folder / LOG).read_text().endswith("Invalid partition\n")


@pytest.fixture
def gate(folder):
    """A failed job with its log, and the DAG in which RUN and a table wait for it."""
    log = folder / "gate.log"
    log.write_text("Traceback\nGateError: it is wrong\n")
    job = SimpleNamespace(rule=SimpleNamespace(name="observe_parity"), is_group=lambda: False, log=[str(log)])
    inputs = {name: folder / f"{name}.json" for name in ("data", "weights", "verdict")}
    waiting = [make_job(input=inputs, params=SimpleNamespace(settings="{}")), make_job("make_tables")]
    dag = SimpleNamespace(depending={}, bfs=lambda direction, failed: [failed, *waiting], needrun_jobs=lambda: [])
    return job, dag


def read_blocked(folder) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((folder / "results" / "attempts" / RUN).glob("*/*.json"))]


def test_runs_that_wait_for_a_failed_step_get_its_last_words_as_their_reason(folder, gate, monkeypatch):
    monkeypatch.setattr(attempts, "complete_spec", lambda *values: {})
    monkeypatch.setattr(attempts, "write_record", lambda path, record: path.write_text(json.dumps(record)))
    job, dag = gate
    for _ in range(2):
        Failures(print).block(dag, job)
    (record,) = read_blocked(folder)
    assert (record["status"], record["parity"]) == ("blocked", "not_checked")
    reason = "the step observe_parity, which the run needs, failed: GateError: it is wrong; its log is"
    assert record["reason"] == f"{reason} {folder / 'gate.log'}"
    group = SimpleNamespace(is_group=lambda: True, jobs=[job])
    Failures(print).block(dag, group)
    assert len(read_blocked(folder)) == 1, "only the newest is kept"


def test_a_failed_run_blocks_no_other_and_snakemake_goes_on_if_nothing_can_be_recorded(folder, gate):
    job, dag = gate
    said = []
    Failures(said.append).block(dag, make_job())
    assert said == [] and read_blocked(folder) == []
    dag.bfs = lambda direction, failed: [make_job(input={}, params=SimpleNamespace(settings="{}"))]
    Failures(said.append).block(dag, job)
    assert said == ["What waits for observe_parity could not be recorded: KeyError: 'data'"]


def test_a_run_of_a_program_has_no_data_and_is_recorded(folder, gate):
    """Snakemake gives an empty list of named files for an input that is empty."""
    job, dag = gate
    inputs = {name: Namedlist() for name in ("data", "weights", "verdict")}
    settings = SimpleNamespace(settings=json.dumps({"program": {"command": "sh own.sh", "files": {}, "axes": {}}}))
    unreadable = make_job(input={}, params=settings)
    dag.bfs = lambda direction, failed: [unreadable, make_job(input=inputs, params=settings)]
    said = []
    Failures(said.append).block(dag, job)
    (record,) = read_blocked(folder)
    assert (record["status"], record["spec"]["family"], record["parity"]) == ("blocked", "program", "not_checked")
    assert said == ["What waits for observe_parity could not be recorded: KeyError: 'data'"], "and the others are"


@pytest.fixture
def unstarted(folder, monkeypatch):
    """A function that tells of the end of job 7, and the records that this leaves."""
    monkeypatch.setattr(attempts, "ask_for_job", lambda job_id: {})
    monkeypatch.setattr(attempts, "ask_database", lambda job_id: {})
    made = []
    monkeypatch.setattr(attempts, "_record_end", lambda *values: made.append(values[-2:]))
    return lambda: attempts.record_unstarted(RUN, {}, {}, "7", "its last words"), made


def test_a_job_that_ended_before_its_attempt_is_recorded_with_its_last_words(unstarted):
    end, made = unstarted
    end()
    reason = "job 7 ended before the run began: its last words"
    assert made == [("job7", {"status": "crashed", "reason": reason})]


def test_what_slurm_says_of_a_job_that_never_began_comes_first(unstarted, monkeypatch):
    end, made = unstarted
    job = {"JobId": "7", "JobState": "OUT_OF_MEMORY", "MinMemoryNode": "450M"}
    monkeypatch.setattr(attempts, "ask_database", lambda job_id: job)
    end()
    ((_, ending),) = made
    assert ending["status"] == "host_out_of_memory" and "450M" in ending["reason"]


def test_a_job_that_began_its_attempt_tells_its_end_itself(unstarted, folder):
    end, made = unstarted
    write_attempt(folder, "20260101T000000-job7", "crashed", "its own")
    end()
    assert made == []


def test_a_run_that_is_left_to_another_call_has_not_failed(unstarted, monkeypatch):
    end, made = unstarted
    monkeypatch.setattr(attempts, "find_working", lambda run: [("an attempt", SimpleNamespace(job="8"))])
    end()
    assert made == []


def test_a_job_that_ended_between_its_folder_and_its_record_is_recorded(unstarted, folder, monkeypatch):
    """SLURM may still call the job alive."""
    end, made = unstarted
    (folder / "results" / "attempts" / RUN / "20260101T000000-job7").mkdir(parents=True)
    monkeypatch.setattr(attempts, "find_working", lambda run: [("an attempt", SimpleNamespace(job="7"))])
    end()
    assert [name for name, _ in made] == ["job7"]


def test_last_words_are_of_the_first_log_that_has_any(folder):
    logs = [folder / name for name in ("train.log", "7.log", "missing.log")]
    logs[0].write_text(NOT_STARTED)
    logs[1].write_text("one\ntwo\n\n")
    assert find_last_words(logs) == "two"
    assert find_last_words([logs[0], logs[2]]) == f"see {logs[2]}"
