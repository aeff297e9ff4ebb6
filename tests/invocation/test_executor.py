"""The executor for SLURM loses no job, repeats none, and ends with its call."""

import asyncio
import errno
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import snakemake.api  # noqa: F401  (the plugin cannot be imported before it)
import snakemake_executor_plugin_slurm as plugin
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from hanging import HANG_S
from howmanygpus.invocation import executor as module
from howmanygpus.invocation.executor import Executor, adopt, check_fits, forget_requests
from howmanygpus.invocation.failing import NOT_STARTED, read_last_line
from howmanygpus.invocation.job_states import Watch
from howmanygpus.invocation.refusals import find_patience_s, find_refusal, may_be_late
from howmanygpus.site import slurm
from howmanygpus.site.jobs import invocations, ledger

SAID = "sbatch: error: Batch job submission failed: Invalid account"
MESSAGE = f"SLURM sbatch failed. The error message was '{SAID}\n'.\n    sbatch call:\n        sbatch --parsable 'it'.\n"


class Resources(dict):
    """Resources of a job, which the plugin reads as keys and as attributes."""

    __getattr__ = dict.get


def make_executor(**attributes) -> Executor:
    """Return an executor that has started no thread."""
    executor = Executor.__new__(Executor)
    settings = SimpleNamespace(
        init_seconds_before_status_checks=20, keep_successful_logs=False, requeue=False, pass_command_as_script=False
    )
    defaults = {
        "wait": True,
        "_told": set(),
        "workflow": SimpleNamespace(executor_settings=settings),
        "active_jobs": [],
        "not_noted": [],
    }
    vars(executor).update(defaults | {"_watch": Watch(executor)} | attributes)
    return executor


def test_snakemake_starts_it_for_the_name_slurm(monkeypatch):
    found = ExecutorPluginRegistry().get_plugin("slurm")
    monkeypatch.setattr(found, "executor", found.executor)
    adopt()
    assert found.executor is Executor and issubclass(Executor, plugin.Executor)


def test_a_plugin_in_which_jobs_may_be_lost_is_refused(monkeypatch):
    check_fits(pytest.fail)
    monkeypatch.setattr(plugin.Executor, "run_job", lambda self, job, more: None)
    with pytest.raises(WorkflowError, match=r"Executor\.run_job is .*more.*jobs may be lost.*envs/workflow\.txt"):
        check_fits(pytest.fail)


def test_a_plugin_with_another_method_for_comfort_keeps_its_own(monkeypatch):
    told = []
    monkeypatch.setattr(Executor, "sleep", Executor.sleep)
    monkeypatch.setattr(plugin.Executor, "sleep", lambda self, seconds: None)
    check_fits(told.append)
    check_fits(told.append)
    assert len(told) == 1 and "sleep" in told[0] and Executor.sleep is plugin.Executor.sleep


def answer(printed: str, monkeypatch, folder) -> tuple[list[str], list[str], list[str]]:
    """Return the jobs that succeed, that fail and that go on, if squeue prints these ids and states."""
    squeue = folder / "squeue"
    lines = [f"{line}{'|' * (len(slurm.QUEUE) - 2)}" if "|" in line else line for line in printed.splitlines()]
    squeue.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    succeeded, failed, active = [], [], []
    executor = make_executor(
        _next_seconds_between_status_checks=20,
        get_status_command=lambda: "squeue",
        report_job_success=lambda job: succeeded.append(job.external_jobid),
        report_job_error=lambda job, **_: failed.append(job.external_jobid),
    )
    group = SimpleNamespace(is_group=lambda: True)
    jobs = [SimpleNamespace(external_jobid=each, aux={}, job=group) for each in ("1", "2", "3")]

    async def check():
        async for job in executor.check_active_jobs(jobs):
            active.append(job.external_jobid)

    asyncio.run(check())
    return succeeded, failed, active


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("1|COMPLETED\n2|CANCELLED by 1000\n3|RUNNING", (["1"], ["2"], ["3"])),
        ("1|TIMEOUT\n2|UNKNOWN\n3|SOMETHING_NEW", ([], ["1"], ["2", "3"])),
        ("", ([], [], ["1", "2", "3"])),
        ("squeue: warning: maintenance\n1|COMPLETED", (["1"], [], ["2", "3"])),
    ],
)
def test_a_job_ends_only_by_a_state_in_which_jobs_end(monkeypatch, tmp_path, printed, expected):
    assert answer(printed, monkeypatch, tmp_path) == expected


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (slurm.Job("1", "PENDING"), []),
        (slurm.Job("1", "PENDING", may_requeue=False), ["1"]),
        (slurm.Job("1", "PREEMPTED"), ["1"]),
        (None, []),
    ],
    ids=["requeued", "not to be requeued", "cancelled with PreemptMode=CANCEL", "forgotten"],
)
def test_a_preempted_job_is_waited_for_if_it_starts_again(monkeypatch, tmp_path, job, expected):
    monkeypatch.setattr(slurm, "find_job", lambda job_id: job)
    assert answer("1|PREEMPTED\n2|RUNNING\n3|RUNNING", monkeypatch, tmp_path)[1] == expected


@pytest.mark.parametrize(
    ("changes", "attempt", "status"),
    [
        ({"preempted_at": 20.0}, 0, "preempted"),
        ({"preempted_at": 20.0, "may_requeue": False}, 1, "preempted"),
        ({"preempted_at": 5.0}, 1, "crashed"),
        ({}, 1, "crashed"),
    ],
    ids=["in the grace time", "not to be requeued", "preempted at an earlier start", "failed"],
)
def test_a_failure_in_the_grace_time_of_a_preemption_uses_up_no_retry(monkeypatch, tmp_path, changes, attempt, status):
    """The controller forgets the preemption soon, so that the record for the bill keeps it."""
    monkeypatch.chdir(tmp_path)
    records = [tmp_path / ledger.JOBS / "gate" / "torch-1" / f"20260101T000000-job{number}.json" for number in (1, 11)]
    records[0].parent.mkdir(parents=True)
    for record in records:
        record.write_text(json.dumps({"status": "crashed", "reason": "exit status 1"}))
    job = slurm.Job("1", "FAILED", started_at=10.0, ended_at=30.0, **changes)
    monkeypatch.setattr(slurm, "find_job", lambda job_id: job)

    async def read_states(ids):
        return {"1": "FAILED"}

    failed = []
    executor = make_executor(
        _watch=SimpleNamespace(read_states=read_states),
        _next_seconds_between_status_checks=20,
        report_job_error=lambda job_info, **_: failed.append(job_info.job.attempt),
    )
    job_info = SimpleNamespace(external_jobid="1", aux={}, job=SimpleNamespace(attempt=1))

    async def check():
        async for _ in executor.check_active_jobs([job_info]):
            pytest.fail("the job goes on")

    asyncio.run(check())
    assert failed == [attempt]
    assert [json.loads(record.read_text())["status"] for record in records] == [status, "crashed"]


@pytest.fixture
def cancelled(monkeypatch) -> list:
    """Return the list of what is cancelled. Jobs 7 and 8 of the call wait in the queue, and 9 is of another one."""
    calls: list = []
    queue = [slurm.Job(each, name=f"{name}") for each, name in (("7", "a-call"), ("8", "a-call"), ("9", "another"))]
    monkeypatch.setattr(invocations, "list_queue", lambda states, own: queue)
    monkeypatch.setattr(slurm, "cancel", lambda ids, only_waiting=False: calls.append((only_waiting, list(ids))))
    return calls


def test_ctrl_c_cancels_every_job_of_the_call_and_submits_no_more(cancelled):
    submitting, gate = ThreadPoolExecutor(1), threading.Event()
    submitting.submit(lambda: cancelled.append("first" if gate.wait(120) else ""))
    submitting.submit(cancelled.append, "second")
    shutdown = submitting.shutdown
    # The first submission ends once the second one has been given up.
    submitting.shutdown = lambda wait=True, **how: (shutdown(wait=False, **how), gate.set(), shutdown(wait=wait))
    asked_about = [SimpleNamespace(external_jobid="6")]
    make_executor(run_uuid="a-call", _job_submission_executor=submitting, asked_about=asked_about).cancel_jobs([])
    assert cancelled == ["first", (False, ["6", "7", "8"])]


def test_sigterm_cancels_waiting_jobs_until_the_call_ends(cancelled, monkeypatch):
    monkeypatch.setattr(module, "REPEAT_S", 0.05)
    executor = make_executor(run_uuid="a-call")
    executor.cancel_waiting_jobs()
    deadline = time.monotonic() + HANG_S
    while len(cancelled) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (thread,) = (each for each in threading.enumerate() if each.name == "cancelling")
    executor.wait = False
    thread.join(timeout=HANG_S)
    assert cancelled[:2] == [(True, ["7", "8"])] * 2
    assert executor.next_seconds_between_status_checks == 0.05, "the plugin soon asks for the jobs' states"


def test_jobs_that_cannot_be_cancelled_are_named_with_the_command_for_later(cancelled, monkeypatch):
    def fail(ids):
        raise slurm.SlurmError("scancel", None, "did not answer within 20 s")

    monkeypatch.setattr(slurm, "cancel", fail)
    told = []
    logger = SimpleNamespace(error=told.append)
    executor = make_executor(run_uuid="a-call", _job_submission_executor=ThreadPoolExecutor(1), logger=logger)
    executor.cancel_jobs([SimpleNamespace(external_jobid="7")])
    assert "could not be cancelled: scancel: did not answer" in told[0] and "`scancel 7` cancels them" in told[0]


def test_without_an_account_none_is_guessed(monkeypatch):
    monkeypatch.setattr(plugin, "get_account", lambda logger: pytest.fail("an account is guessed"))
    monkeypatch.setattr(plugin, "validate_account", lambda account, logger: account)
    executor = make_executor(_fallback_account_arg=None, logger=None)
    assert list(executor.get_account_arg(SimpleNamespace(resources=Resources()))) == [""]
    assert list(executor.get_account_arg(SimpleNamespace(resources=Resources(slurm_account="lab")))) == [" -A lab"]


def test_the_end_of_a_call_waits_for_no_question():
    for name, value in (("wait", False), ("_next_seconds_between_status_checks", 0.2)):
        executor, started = make_executor(_next_seconds_between_status_checks=600), time.monotonic()
        threading.Timer(0.1, setattr, (executor, name, value)).start()
        asyncio.run(executor.sleep())
        assert time.monotonic() - started < 300, "a pause may become shorter"
    started = time.monotonic()
    asyncio.run(make_executor(_next_seconds_between_status_checks=0.2).sleep())
    assert time.monotonic() - started >= 0.2


def test_a_job_starts_no_second_snakemake():
    assert make_executor().additional_general_args() == []


def test_processes_of_a_job_do_not_inherit_its_request(monkeypatch):
    kept = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "1", "SLURM_CONF": "slurm.conf", "SLURM_TMPDIR": "/disk"}
    kept |= {"HOME": "/"}
    given = kept | {"SLURM_NTASKS": "2", "SRUN_CPUS_PER_TASK": "4", "SBATCH_EXCLUSIVE": "1"}
    monkeypatch.setattr(os, "environ", given)
    forget_requests()
    assert given == kept


def test_a_refusal_quotes_sbatch_in_one_line():
    assert find_refusal(MESSAGE) == f"SLURM refused the job: {SAID}"
    too_many = MESSAGE.replace("Batch job", "QOSMaxSubmitJobPerUserLimit sbatch: error: Batch job")
    assert find_refusal(too_many).endswith(
        "Invalid account; lower `jobs` in config.yaml of the profile: so many jobs are submitted at once"
    )
    assert find_refusal("Job submission failed with exception:\n x") == (
        "SLURM refused the job: Job submission failed with exception: x"
    )


FAILED = "sbatch: error: Batch job submission failed: "


def quote(*lines: str) -> str:
    """Return the plugin's message about an sbatch that has printed some lines, in a folder with a misleading name."""
    folder = "--chdir '/temporarily unavailable/Timed out'"
    return MESSAGE.replace(f"{SAID}\n", "\n".join(lines)).replace("'it'", folder)


@pytest.mark.parametrize(
    "lines",
    [
        ("sbatch: error: Jobs need a budget.", "sbatch: error: See the pages.", f"{FAILED}Unspecified error"),
        ("sbatch: error: Temporary disk is required", f"{FAILED}Requested node configuration is not available"),
        ("sbatch: error: Authentication by a second factor is due", f"{FAILED}Unspecified error"),
        ("sbatch: error: no, use 'gpu'.", "sbatch: error: Now.", f"{FAILED}Unspecified error"),
        ("sbatch: error: cli_filter plugin terminated with error",),
        (f"{FAILED}Invalid qos specification",),
    ],
)
def test_a_final_refusal_is_not_tried_again(lines):
    assert find_patience_s(quote(*lines), has_jobs=True) == 0 and not may_be_late(quote(*lines))


@pytest.mark.parametrize(
    "lines",
    [
        (f"{FAILED}Unable to contact slurm controller (connect failure)",),
        ("sbatch: error: Munge encode failed: Failed to access socket", f"{FAILED}Unspecified error"),
        ("sbatch: You have 100 hours left", f"{FAILED}Socket timed out on send/recv operation"),
        (f"{FAILED}Resource temporarily unavailable",),
        (f"{FAILED}Protocol authentication error",),
        (f"{FAILED}Slurm backup controller in standby mode",),
    ],
)
def test_a_controller_that_is_away_is_waited_for(lines):
    assert find_patience_s(quote(*lines), has_jobs=False) >= 600


@pytest.mark.parametrize("lines", [(f"{FAILED}Unspecified error",), ("sbatch: something new",)])
def test_an_unexplained_refusal_is_tried_again_for_a_short_time(lines):
    assert 0 < find_patience_s(quote(*lines), has_jobs=True) < 60


def test_a_limit_of_submitted_jobs_is_waited_for_while_other_jobs_go_on():
    lines = ("sbatch: error: AssocMaxSubmitJobLimit", f"{FAILED}Job violates accounting/QOS policy")
    assert find_patience_s(quote(*lines), has_jobs=True) == float("inf")


@pytest.mark.parametrize(
    ("own", "ending", "words"),
    [
        (
            "Layout 1 of 2\n",
            {"reason": "SLURM ended the job at its time limit"},
            "SLURM ended the job at its time limit",
        ),
        ("GateError: it is wrong\n", {}, "GateError: it is wrong"),
        (NOT_STARTED, {}, "job 7 ended before the step began: slurmstepd: error: no such folder"),
        (NOT_STARTED, {"reason": "SLURM lost a node"}, "job 7 ended before the step began: SLURM lost a node"),
    ],
)
def test_the_log_of_a_failed_step_ends_with_the_reason(tmp_path, monkeypatch, own, ending, words):
    monkeypatch.setattr(module, "ask_for_end", lambda job_id: ending)
    monkeypatch.setattr(plugin.Executor, "report_job_error", lambda self, job_info, msg, **more: None)
    (tmp_path / "own.log").write_text(own)
    (tmp_path / "7.log").write_text("Building DAG of jobs...\nslurmstepd: error: no such folder\n")
    rule = SimpleNamespace(name="observe_parity")
    job = SimpleNamespace(rule=rule, log=[str(tmp_path / "own.log")], is_group=lambda: False)
    job_info = SimpleNamespace(job=job, external_jobid="7")
    make_executor().report_job_error(job_info, msg="", aux_logs=[str(tmp_path / "7.log")])
    assert read_last_line([tmp_path / "own.log"]) == words


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """A job with a log, what Snakemake hears of its refusal, and what the user does."""
    monkeypatch.chdir(tmp_path)
    heard, told = [], []
    report = plugin.Executor._report_job_error_threadsafe
    monkeypatch.setattr(plugin.Executor, report.__name__, lambda self, job_info, msg: heard.append(msg))
    (tmp_path / "log").write_text(NOT_STARTED)
    job = SimpleNamespace(rule=SimpleNamespace(name="other"), log=["log"], is_group=lambda: False)
    vars(job).update(attempt=1, restart_times=2)
    executor = make_executor(logger=SimpleNamespace(error=told.append, warning=told.append), _told_at=0.0)
    return SimpleNamespace(
        job=job, heard=heard, told=told, run=executor.run_job, report=executor._report_job_error_threadsafe
    )


def test_snakemake_hears_of_a_refusal_that_cannot_be_recorded(refused):
    refused.job.rule.name, refused.job.wildcards, refused.job.input = "train", SimpleNamespace(run="a/run"), {}
    refused.report(SimpleNamespace(job=refused.job), MESSAGE)
    assert refused.heard == [MESSAGE]
    assert refused.told[0] == f"a/run: SLURM refused the job: {SAID}" and "could not be recorded" in refused.told[1]


def test_a_repeated_refusal_is_told_once_and_another_one_again(refused, tmp_path):
    for message in (MESSAGE, MESSAGE, MESSAGE.replace("account", "partition")):
        refused.report(SimpleNamespace(job=refused.job), message)
    assert [words.rpartition(" ")[2] for words in refused.told] == ["account", "partition"]
    assert (tmp_path / "log").read_text().endswith("Invalid partition\n")


@pytest.mark.parametrize(("message", "attempt"), [(MESSAGE, 3), ("Job submission failed with exception: x", 1)])
def test_a_final_refusal_uses_up_the_retries(refused, monkeypatch, message, attempt):
    """The plugin's own exceptions may be of another kind the next time."""
    monkeypatch.setattr(
        plugin.Executor,
        "run_job",
        lambda self, job: self._report_job_error_threadsafe(SimpleNamespace(job=job), message),
    )
    for name in ("take_over", "find_outdated"):
        monkeypatch.setattr(module, name, lambda job: None)
    refused.run(refused.job)
    assert refused.job.attempt == attempt


def test_a_submission_that_was_refused_after_a_silence_has_no_double(refused, monkeypatch):
    """The job that this thread submitted before is none."""
    answers = iter([MESSAGE.replace("Invalid account", "Socket timed out on send/recv operation"), MESSAGE])
    monkeypatch.setattr(
        plugin.Executor,
        "run_job",
        lambda self, job: self._report_job_error_threadsafe(SimpleNamespace(job=job), next(answers)),
    )
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.0)
    for name in ("take_over", "find_outdated"):
        monkeypatch.setattr(module, name, lambda job: None)
    monkeypatch.setattr(slurm, "list_queue", lambda: pytest.fail("the queue is asked for doubles"))
    module._submission.job_id = "7"
    refused.run(refused.job)
    assert refused.heard == [MESSAGE]


def test_a_job_that_a_full_disk_kept_from_being_noted_for_the_bill_is_noted_later(monkeypatch):
    noted, is_full = [], [True]

    def note(job, job_id, *log):
        if is_full[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        noted.append(job_id)

    monkeypatch.setattr(module, "note_devices", note)
    monkeypatch.setattr(module, "write_note", note)
    monkeypatch.setattr(plugin.Executor, "_report_job_submission_threadsafe", lambda self, job_info: None)
    told: list[str] = []
    executor = make_executor(logger=SimpleNamespace(warning=told.append))
    job = SimpleNamespace(is_group=lambda: False)
    executor._report_job_submission_threadsafe(SimpleNamespace(job=job, external_jobid="7", aux={"slurm_logfile": "x"}))
    assert executor.not_noted == [(job, "7")] and "Job 7 could not be noted for the bill" in told[0]
    assert executor.note_again() == ["7"]
    is_full[0] = False
    assert executor.note_again() == [] and noted == ["7"]
