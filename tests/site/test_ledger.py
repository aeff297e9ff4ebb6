"""Jobs with devices are recorded from start to end, completed by what SLURM counted, and tabulated with their bill."""

import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from hanging import HANG_S
from helpers.fake_slurm import pretend
from helpers.records import JOB, make_attempt, make_run
from helpers.specs import make_spec
from helpers.stored_runs import plan_of
from howmanygpus.files import write_json_atomic
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.host.slurm import JOB as JOB_OF_LAUNCHER
from howmanygpus.measure.host.slurm import read_job, restore_environment
from howmanygpus.report.tables.jobs import tabulate
from howmanygpus.site.jobs import ledger
from howmanygpus.site.jobs.invocations import read_start_ticks
from howmanygpus.site.jobs.ledger import complete_and_list_jobs, recorded, start_record
from howmanygpus.site.slurm import SlurmError
from project import ROOT

SIZE = {"device": "cpu", "num_gpus": 2, "num_nodes": 1}
BILLING = {"cpu": {"devices_per_node": 4, "billed": "device", "price_per_hour": 3.0, "currency": "EUR"}}
STARTED = 1_000_000.0
"""When SLURM started the jobs of these tests, in seconds since 1970."""


def in_utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in an empty folder, outside of jobs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return tmp_path


@pytest.fixture
def slurm(folder, monkeypatch):
    """Return a function that sets what sacct and squeue print; None for a command that fails."""
    commands = folder / "bin"
    commands.mkdir()
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")

    def answer(sacct=None, squeue=None):
        for name, lines in (("sacct", sacct), ("squeue", squeue)):
            printed = "exit 1" if lines is None else "cat <<END\n" + "\n".join(lines) + "\nEND"
            (commands / name).write_text(f"#!/bin/sh\n{printed}\n")
            (commands / name).chmod(0o755)

    answer()
    return answer


def write_job(kind="gate", name="g", moment="20260101T000000", **changes):
    """Write the record of a job that SLURM had started at STARTED, and return its path."""
    job = JOB | {"started_at": STARTED, "allocated": "cpu=8,node=1,gres/gpu=2"}
    record = {"kind": kind, "name": name, **SIZE, "framework": "pytorch_ddp", "status": "completed", "reason": ""}
    record |= {"pid": 1, "hostname": "elsewhere", "started_at": "1970-01-12T13:46:42+00:00", "job": job}
    record |= changes
    record |= {"finished_at": "1970-01-12T14:46:40+00:00"} if record["status"] != "running" else {}
    path = ledger.JOBS / kind / name / f"{moment}-job7.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomic(path, record)
    return path


def tell(end=STARTED + 3660, state="COMPLETED", start=STARTED, allocated="cpu=8,node=1,gres/gpu=2"):
    """A line of sacct about job 7."""
    return f"7|{state}|{in_utc(start)}|{in_utc(end) if end else 'Unknown'}|01:00:00|n1|{allocated}"


def queue(state):
    """A line of squeue about job 7, which ends two hours after its start, or is expected to."""
    return f"7|{state}|{in_utc(STARTED)}|{in_utc(STARTED + 7200)}|01:00:00|n1|None|gpu|me|a|b"


def make_row(**changes):
    plan = plan_of(make_spec(framework="pytorch_ddp"), billing={"cpu": BILLING["cpu"] | changes}) | {"study": "s"}
    (row,) = tabulate(plan, complete_and_list_jobs()).to_dict("records")
    return row


def test_slurm_counts_the_hours_of_a_job(slurm):
    """The job took a second to start its program, and a minute to end after it."""
    write_job()
    slurm(sacct=[tell()])
    row = make_row()
    assert (row["hours"], row["counted_by"]) == (pytest.approx(3660 / 3600), "SLURM")
    assert (row["billed_device_hours"], row["cost"]) == (pytest.approx(2 * 3660 / 3600), pytest.approx(6.1))
    slurm()
    assert make_row()["hours"] == row["hours"], "it is asked once"


def test_without_an_accounting_database_the_controller_is_asked(slurm):
    write_job()
    slurm(squeue=[queue("COMPLETED")])
    assert (make_row()["hours"], make_row()["counted_by"]) == (2.0, "SLURM")


def test_the_controller_knows_sooner_than_the_database_that_a_job_has_ended(slurm):
    write_job()
    slurm(sacct=[tell(end=None, state="RUNNING")], squeue=[queue("COMPLETED")])
    assert make_row()["hours"] == 2.0


def test_the_end_that_a_job_is_expected_to_have_is_no_end(slurm):
    write_job(status="running")
    slurm(squeue=[queue("RUNNING")])
    assert (make_row()["status"], pd.isna(make_row().get("hours"))) == ("running", True)


def test_a_job_that_slurm_has_forgotten_is_counted_by_its_program(slurm):
    write_job()
    row = make_row()
    assert (row["hours"], row["counted_by"]) == (1.0, "job"), "from SLURM's start to the program's end"


@pytest.mark.parametrize(
    ("changes", "billed", "cost"),
    [({}, 4.0, 12.0), ({"billed": "node"}, 4.0, 3.0), ({"price_per_hour": None}, 4.0, None)],
)
def test_a_job_is_billed_by_the_devices_that_it_was_given(slurm, changes, billed, cost):
    """It asked for two devices, and an exclusive node gave it four."""
    write_job()
    slurm(sacct=[tell(end=STARTED + 3600, allocated="cpu=8,node=1,gres/gpu=4,gres/gpu:fake=4")])
    row = make_row(**changes)
    assert (row["device_hours"], row["billed_device_hours"]) == (2.0, billed)
    assert row["cost"] == cost if cost else pd.isna(row["cost"])


def test_each_start_of_a_requeued_job_has_its_own_hours(slurm):
    later = STARTED + 90_000
    job = JOB | {"started_at": later}
    write_job(status="running")
    write_job(moment="20260102T000000", job=job, started_at="1970-01-13T14:46:42+00:00")
    slurm(sacct=[tell(end=STARTED + 1800, state="PREEMPTED"), tell(start=later, end=later + 7200)])
    plan = plan_of(make_spec(framework="pytorch_ddp"), billing=BILLING) | {"study": "s"}
    table = tabulate(plan, complete_and_list_jobs())
    assert table["status"].tolist() == ["preempted", "completed"] and table["hours"].tolist() == [0.5, 2.0]


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("crashed", "the task was not done:\n  sgd, on 1 device crashed: exit status 143", "interrupted"),
        ("crashed", "ValueError: no such layer", "crashed"),
        ("interrupted", "stopped by SystemExit", "interrupted"),
    ],
)
def test_a_job_that_a_signal_ended_before_slurm_started_it_again_has_not_crashed(slurm, status, reason, expected):
    """Without a database, nobody tells how the first start ended."""
    write_job(status=status, reason=reason)
    write_job(moment="20260102T000000", job=JOB | {"restarts": 1}, started_at="1970-01-13T14:46:42+00:00")
    slurm()
    found = [record["status"] for record in complete_and_list_jobs().values()]
    assert found == [expected, "completed"]


def test_two_tries_in_one_job_share_its_time(slurm):
    """Snakemake tries the step of a gate again inside its job. The first try ended after 20 minutes."""
    write_job(status="crashed")
    write_job(moment="20260102T000000", started_at="1970-01-12T14:06:40+00:00")
    slurm(sacct=[tell(end=STARTED + 3600)])
    plan = plan_of(make_spec(framework="pytorch_ddp"), billing=BILLING) | {"study": "s"}
    hours = tabulate(plan, complete_and_list_jobs()).set_index("status")["hours"]
    assert hours.to_dict() == {"crashed": pytest.approx(1 / 3), "completed": pytest.approx(2 / 3)}


def note(kind="gate", name="g", **more):
    """Note the submission of job 7, whose own record is missing."""
    ledger.note_submission(kind, name, SIZE, "7", framework="pytorch_ddp", **more)


def list_notes():
    return list(ledger.JOBS.rglob(f"*{ledger.SUBMITTED_SUFFIX}"))


@pytest.mark.parametrize(
    ("state", "status"), [("COMPLETED", "completed"), ("TIMEOUT", "time_limit"), ("FAILED", "killed")]
)
def test_a_job_that_could_not_write_its_record_is_in_the_bill(slurm, state, status):
    note(shares={"s": 1.0})
    slurm()
    assert complete_and_list_jobs() == {} and list_notes(), "SLURM is asked again"
    slurm(sacct=[tell(state=state)])
    row = make_row()
    assert (row["status"], row["hours"], row["counted_by"]) == (status, pytest.approx(3660 / 3600), "SLURM")
    assert row["billed_device_hours"] == pytest.approx(2 * 3660 / 3600) and row["job_id"] == "7"
    assert not list_notes()
    slurm()
    assert make_row()["hours"] == row["hours"]


def test_a_run_that_could_not_write_its_record_ended_as_its_attempt_says(slurm):
    note("run", "s/a")
    store_outcome(
        "s/a/19700112T134642-job7", {"status": "disk_full", "reason": "full"}, "attempt.json", "results/attempts"
    )
    slurm(sacct=[tell(state="FAILED")])
    row = make_row()
    assert (row["status"], row["study"], row["hours"]) == ("disk_full", "s", pytest.approx(3660 / 3600))


def test_the_first_start_of_a_requeued_job_is_in_the_bill_once_the_database_is_back(slurm):
    later = STARTED + 90_000
    note()
    write_job(job=JOB | {"started_at": later, "restarts": 1}, started_at="1970-01-13T14:46:42+00:00")
    slurm(
        squeue=[
            queue("COMPLETED")
            .replace(in_utc(STARTED), in_utc(later))
            .replace(in_utc(STARTED + 7200), in_utc(later + 7200))
        ]
    )
    assert make_row()["hours"] == 2.0 and list_notes()
    slurm(sacct=[tell(end=STARTED + 1800, state="PREEMPTED"), tell(start=later, end=later + 7200)])
    plan = plan_of(make_spec(framework="pytorch_ddp"), billing=BILLING) | {"study": "s"}
    table = tabulate(plan, complete_and_list_jobs())
    assert table["status"].tolist() == ["preempted", "completed"] and table["hours"].tolist() == [0.5, 2.0]
    assert not list_notes()


@pytest.mark.parametrize(
    ("line", "is_left"),
    [
        (tell(end=None, state="RUNNING"), True),
        (tell(start=STARTED, end=STARTED, state="CANCELLED").replace("|n1|", "|None assigned|"), False),
    ],
    ids=["running", "cancelled while it waited"],
)
def test_a_job_that_goes_on_or_never_started_adds_nothing_to_the_bill(slurm, line, is_left):
    note()
    slurm(sacct=[line])
    assert complete_and_list_jobs() == {} and bool(list_notes()) == is_left


def test_a_job_with_a_record_of_its_own_is_billed_once(slurm):
    note()
    write_job()
    slurm(sacct=[tell()])
    assert make_row()["hours"] == pytest.approx(3660 / 3600) and not list_notes()


def test_a_job_that_slurm_ended_says_why(slurm):
    write_job(status="interrupted")
    slurm(sacct=[tell(state="TIMEOUT")])
    assert make_row()["status"] == "time_limit"


def store_outcome(name, record, file="run.json", folder="results/runs"):
    path = (ledger.JOBS.parent.parent / folder / name / file).absolute()
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record))


def test_runs_and_failed_attempts_report_their_outcome_to_the_job(slurm):
    """The first job failed, the second published the run. Nobody has heard of the third."""
    times = {"started_at": "1970-01-12T13:46:45+00:00", "finished_at": "1970-01-12T14:00:00+00:00"}
    spec = make_spec(framework="pytorch_ddp")
    values = {"kind": "run", "name": "s/a", "status": "running"}
    write_job(**values, attempt="results/attempts/s/a/first", started_at="1970-01-12T13:46:42+00:00")
    later = {"started_at": "1970-01-12T15:46:42+00:00", "moment": "20260102T000000"}
    write_job(**values, attempt="results/attempts/s/a/second", **later)
    last = {"started_at": "1970-01-12T16:46:42+00:00", "moment": "20260103T000000"}
    write_job(**values, attempt="results/attempts/s/a/third", **last)
    store_outcome("s/a/first", make_attempt(spec, "no_rendezvous", **times), "attempt.json", "results/attempts")
    run = make_run(spec, started_at="1970-01-12T15:46:43+00:00", finished_at="1970-01-12T16:00:00+00:00")
    store_outcome("s/a", run)
    table = tabulate(plan_of(spec, billing=BILLING) | {"study": "s"}, complete_and_list_jobs())
    assert table["status"].tolist() == ["no_rendezvous", "completed", "running"]
    assert set(table["study"]) == {"s"}


def test_a_job_whose_run_was_done_again_has_completed(slurm):
    for moment, started in (("20260101T000000", "13:46:42"), ("20260102T000000", "15:46:42")):
        values = {"attempt": f"results/attempts/s/a/{moment}", "started_at": f"1970-01-12T{started}+00:00"}
        write_job("run", "s/a", moment=moment, status="running", **values)
    times = {"started_at": "1970-01-12T15:46:43+00:00", "finished_at": "1970-01-12T16:00:00+00:00"}
    store_outcome("s/a", make_run(make_spec(framework="pytorch_ddp"), **times))
    assert [record["status"] for record in complete_and_list_jobs().values()] == ["completed"] * 2


def test_a_jobs_table_has_the_jobs_of_its_study_and_shared_jobs():
    write_job("run", "s/a", attempt="none")
    write_job("run", "other/a", attempt="none")
    write_job("gate", "mine")
    write_job("gate", "not_mine", framework="another")
    write_job("probe", "cpu")
    write_job("probe", "a100", device="a100")
    write_job("batch_search", "largest")
    plan = plan_of(make_spec(framework="pytorch_ddp"), billing=BILLING) | {"study": "s"}
    for sizes, searches in (([16], []), ([16, "max"], ["largest"]), ("max", ["largest"])):
        plan["config"] = plan["config"] | {"per_device_batch_size": sizes}
        table = tabulate(plan, complete_and_list_jobs())
        assert sorted(table["name"]) == ["cpu", *searches, "mine", "s/a"]


def test_a_packed_allocation_is_billed_and_its_jobs_are_not(slurm):
    """Three of its four devices were idle during one of its jobs."""
    job = JOB | {"started_at": STARTED, "packed": True}
    write_job(job=job, num_gpus=1)
    write_job(job=job, moment="20260102T000000")
    slurm(sacct=[tell(end=STARTED + 10_800, allocated="cpu=8,node=1,gres/gpu=4")])
    plan = plan_of(make_spec(framework="pytorch_ddp"), billing=BILLING) | {"study": "s"}
    table = tabulate(plan, complete_and_list_jobs()).set_index("kind")
    assert table.loc["gate", "billed_device_hours"].isna().all()
    assert (table.loc["gate", "device_hours"] > 0).all()
    assert (table.loc["allocation", "billed_device_hours"], table.loc["allocation", "cost"]) == (12.0, 36.0)


@pytest.mark.parametrize(("end", "status"), [(STARTED + 10_800, "killed"), (None, "running")])
def test_a_job_of_a_packed_allocation_has_ended_with_it(slurm, end, status):
    """A gate on another host that the allocation's time limit has killed, and one whose allocation goes on."""
    write_job(job=JOB | {"started_at": STARTED, "packed": True}, status="running")
    slurm(sacct=[tell(end=end, state="TIMEOUT" if end else "RUNNING")])
    (record,) = complete_and_list_jobs().values()
    assert (record["status"], "settled" in record) == (status, end is not None)


def test_hours_are_counted_through_the_end_of_summer_time(slurm, folder, monkeypatch):
    """From 02:30 to 02:15 by the clock on the wall, which is set back by an hour in between."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    started = 1_792_888_200.0  # 2026-10-25T00:30:00 in UTC
    job = JOB | {"started_at": started}
    write_job(job=job, started_at="2026-10-25T00:30:02+00:00")
    slurm(sacct=[tell(start=started, end=started + 2700)])
    script, local = folder / "bin" / "sacct", "7|COMPLETED|2026-10-25T02:30:00|2026-10-25T02:15:00|01:00:00|n1|"
    script.write_text(script.read_text().replace("cat", f'[ "$TZ" = UTC0 ] || {{ echo "{local}"; exit; }}\ncat'))
    try:
        assert make_row()["hours"] == 0.75
    finally:
        monkeypatch.undo()
        time.tzset()


def test_times_are_asked_for_in_the_format_that_is_read(slurm, folder, monkeypatch):
    """A user may have chosen another one for all commands of SLURM. Names of clusters are no jobs."""
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    write_job()
    slurm(sacct=["CLUSTER: one", tell()])
    script = folder / "bin" / "sacct"
    script.write_text(script.read_text().replace("cat", '[ "$SLURM_TIME_FORMAT" = standard ] && cat'))
    assert make_row()["counted_by"] == "SLURM"


def read_one():
    (path,) = ledger.JOBS.rglob("*.json")
    return json.loads(path.read_text())


def test_a_block_is_recorded_with_its_end():
    with recorded("probe", "cpu", SIZE, packed=False):
        assert read_one()["status"] == "running"
    assert read_one().items() >= {"status": "completed", "num_gpus": 2, "hostname": os.uname().nodename}.items()
    assert "finished_at" in read_one() and "job" not in read_one()


def test_a_block_that_raises_is_recorded_with_the_reason():
    with pytest.raises(ValueError), recorded("probe", "cpu", SIZE, packed=False):
        raise ValueError("no")
    assert (read_one()["status"], read_one()["reason"]) == ("crashed", "ValueError: no")


def test_a_terminated_block_is_recorded():
    code = "import time; from howmanygpus.site.jobs.ledger import recorded\n"
    code += f"with recorded('probe', 'cpu', {SIZE!r}, packed=False): print('here', flush=True); time.sleep(60)"
    variables = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
    process = subprocess.Popen([sys.executable, "-c", code], env=variables, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=HANG_S) == 128 + signal.SIGTERM
    assert read_one()["status"] == "interrupted" and "finished_at" in read_one()


def test_a_killed_job_of_this_machine_is_noticed():
    path = start_record("probe", "cpu", SIZE, packed=False)
    assert complete_and_list_jobs()[str(path)]["status"] == "running"
    write_json_atomic(path, read_one() | {"pid": 2**22 + 1})
    assert complete_and_list_jobs()[str(path)]["status"] == "killed" and read_one()["settled"]


def test_a_later_process_of_the_same_number_is_not_the_job():
    path = start_record("probe", "cpu", SIZE, packed=False)
    assert read_one()["born"] == read_start_ticks(os.getpid())
    write_json_atomic(path, read_one() | {"born": 1})
    assert complete_and_list_jobs()[str(path)]["status"] == "killed"


@pytest.fixture
def in_job(folder, monkeypatch):
    """Let this process be a part of job 7, whose controller is away for the first two questions."""
    script = """cd "$(dirname "$0")"
case "$*" in *hostnames*) echo n1 n2; exit;; esac
echo >> asked
[ $(wc -l < asked) -gt 2 ] || { echo "Unable to contact slurm controller (connect failure)" >&2; exit 1; }
echo "JobId=7 JobState=RUNNING NodeList=n[1-2]"
"""
    pretend(monkeypatch, folder / "commands", "scontrol", script)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv(JOB_OF_LAUNCHER, "of another program")
    monkeypatch.setattr(ledger, "PAUSE_S", 0.01)


def test_a_launcher_knows_its_job_and_nodes_without_asking_slurm(in_job, monkeypatch):
    start_record("run", "r", SIZE | {"num_nodes": 2}, packed=False)
    monkeypatch.setenv("PATH", "")
    assert read_job() == read_one()["job"] and read_job()["id"] == "7"
    placement = Placement(scheduler="slurm", step_options=["--gres=gpu:{n}"])
    found = restore_environment(make_spec(num_gpus=4, num_nodes=2), placement)
    assert (found["SLURM_JOB_NODELIST"], found["SLURM_TASKS_PER_NODE"]) == ("n1,n2", "2(x2)")


def test_a_job_that_begins_does_not_wait_for_ever_for_its_nodes(in_job, monkeypatch):
    monkeypatch.setattr(ledger, "AWAY_S", 0.0)
    with pytest.raises(SlurmError, match="Unable to contact slurm controller"):
        start_record("run", "r", SIZE, packed=False)
    assert read_one()["job"]["id"] == "7", "its hours are counted"


def test_a_packed_job_needs_no_nodes_and_does_not_wait_for_them(in_job):
    start_record("run", "r", SIZE, packed=True)
    assert read_job()["packed"] and read_job()["nodes"] is None


def test_outside_of_jobs_a_launcher_has_none(monkeypatch):
    monkeypatch.setenv(JOB_OF_LAUNCHER, "of another program")
    start_record("run", "r", SIZE, packed=False)
    assert read_job() is None
