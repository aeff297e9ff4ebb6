"""SLURM's answers are read whatever the site prints around them, and a missing answer is an error that says why."""

import time
from functools import partial

import psutil
import pytest

from hanging import HANG_S
from helpers.fake_slurm import AWAY, FORGOTTEN, pretend, show
from helpers.processes import kill_those_left
from howmanygpus.site import slurm
from howmanygpus.site.slurm import SlurmError

LATIN = "Pr\u00fcfung".encode("latin-1")
TEN = 1_792_490_400.0
"""2026-10-20T10:00:00 in UTC."""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Return a function that replaces a command of SLURM by a shell script."""
    return partial(pretend, monkeypatch, tmp_path)


def test_scontrol_describes_a_job(program):
    program(
        "scontrol",
        show(
            "JobId=7 JobName=a_call Comment=two  words JobState=RUNNING Restarts=1 Requeue=0 TimeLimit=01:00:00 "
            "EligibleTime=2026-10-20T10:00:00 StartTime=2026-10-20T10:01:30 EndTime=2026-10-20T11:01:30 "
            "Partition=gpu NodeList=n[1-2] TRES=cpu=8 OverSubscribe=NO MinMemoryNode=4G TresPerNode=gres:gpu:2"
        ),
    )
    assert slurm.find_job("7") == slurm.Job(
        id="7",
        state="RUNNING",
        name="a_call",
        comment="two  words",
        partition="gpu",
        nodes="n[1-2]",
        time_limit="01:00:00",
        memory="4G",
        requested="gres:gpu:2",
        allocated="cpu=8",
        exclusive=True,
        restarts=1,
        may_requeue=False,
        eligible_at=TEN,
        started_at=TEN + 90,
        ended_at=None,
    )


def test_times_are_read_whatever_format_and_zone_the_user_prefers(program, monkeypatch):
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    program(
        "scontrol",
        """[ "$SLURM_TIME_FORMAT" = standard ] && [ "$TZ" = UTC0 ] || { echo 'StartTime=10:00:00'; exit; }
        echo 'JobId=7 StartTime=2026-10-20T10:00:00'""",
    )
    try:
        assert slurm.find_job("7").started_at == TEN
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("command", "variables"),
    [
        ("squeue", ("SQUEUE_PARTITION", "SQUEUE_ACCOUNT", "SQUEUE_NAMES", "SQUEUE_QOS", "SLURM_BITSTR_LEN")),
        ("sacct", ("SACCT_FORMAT", "SACCT_FEDERATION", "SLURM_TOPO_LEN")),
        ("scontrol", ("SCONTROL_FUTURE", "SCONTROL_SIBLING")),
        ("scancel", ("SCANCEL_PARTITION", "SCANCEL_STATE", "SCANCEL_INTERACTIVE")),
    ],
)
def test_no_preference_of_the_user_reaches_a_command(program, monkeypatch, command, variables):
    for variable in variables:
        monkeypatch.setenv(variable, "mine")
    monkeypatch.setenv("SLURM_CONF", "/site/slurm.conf")
    monkeypatch.setenv("SLURM_CLUSTERS", "two")
    program(
        command,
        """env | grep -q =mine && { echo 'preferred' >&2; exit 1; }
        [ "$SLURM_CONF$SLURM_CLUSTERS" = /site/slurm.conftwo ] || { echo 'lost' >&2; exit 1; }
        echo 'JobId=7 JobState=RUNNING'""",
    )
    ask = {
        "squeue": slurm.list_queue,
        "sacct": partial(slurm.list_accounted, ["7"]),
        "scontrol": partial(slurm.find_job, "7"),
        "scancel": partial(slurm.cancel, ["7"]),
    }
    ask[command]()


def test_a_forgotten_job_differs_from_a_controller_that_is_away(program):
    program("scontrol", FORGOTTEN)
    assert slurm.find_job("7") is None
    program("scontrol", AWAY)
    with pytest.raises(SlurmError, match=r"^scontrol: .*Unable to contact slurm controller") as raised:
        slurm.find_job("7")
    assert (raised.value.command, raised.value.status) == ("scontrol", 1)


@pytest.mark.parametrize(
    ("controller", "database", "state"),
    [
        (show("JobId=7 JobState=RUNNING"), AWAY, "RUNNING"),
        (FORGOTTEN, show("7|CANCELLED by 1000|||||"), "CANCELLED"),
        (AWAY, show("7|TIMEOUT|||||"), "TIMEOUT"),
        (FORGOTTEN, AWAY, None),
        (FORGOTTEN, "exit 0", None),
    ],
    ids=["controller", "database", "controller away", "no database", "nobody knows it"],
)
def test_a_job_is_looked_up_in_the_database_behind_the_controller(program, controller, database, state):
    program("scontrol", controller)
    program("sacct", database)
    assert getattr(slurm.look_up("7"), "state", None) == state


def test_a_job_about_which_nobody_answers_is_an_error(program):
    program("scontrol", AWAY)
    program("sacct", AWAY)
    with pytest.raises(SlurmError, match="scontrol"):
        slurm.look_up("7")


@pytest.mark.parametrize("database", [AWAY, show("")], ids=["silent", "without the job"])
def test_a_garbled_answer_of_the_controller_does_not_end_a_job(program, database):
    program("scontrol", show("JobId=7 JobName=grid"))
    program("sacct", database)
    with pytest.raises(SlurmError, match="scontrol"):
        slurm.look_up("7")


def test_the_queue_is_read_with_names_and_comments_that_have_bars_or_no_utf8(program):
    line = b"7|PENDING|2026-10-20T10:00:00|N/A|1:00|n1|Priority|gpu|me|run_%s_mine|a|b"
    program("squeue", b"cat <<'END'\nCLUSTER: one\na banner\n" + line % LATIN + b"\nEND\n")
    (job,) = slurm.list_queue()
    assert job.name.endswith("_mine") and (job.reason, job.comment, job.started_at) == ("Priority", "a|b", TEN)


def test_an_expected_end_is_no_end(program):
    line = "{id}|{state}|2026-10-20T09:00:00|2026-10-20T10:00:00|1:00|n1|None|gpu|me|a|b"
    program("squeue", show("\n".join((line.format(id=7, state="RUNNING"), line.format(id=8, state="COMPLETED")))))
    assert [job.ended_at for job in slurm.list_queue(states="all")] == [None, TEN]


def test_jobs_that_the_queue_has_forgotten_are_no_error(program):
    program("squeue", FORGOTTEN)
    assert slurm.list_queue(ids=["7"]) == []
    with pytest.raises(SlurmError):
        slurm.list_queue()


def test_a_command_that_hangs_is_stopped_with_what_it_started(program, tmp_path):
    program("squeue", f"sleep 600 & echo $! > {tmp_path}/pid; wait")
    with pytest.raises(SlurmError, match="squeue: did not answer within 1 s") as raised:
        slurm.list_queue(patience_s=1.0)
    assert raised.value.status is None
    started = int((tmp_path / "pid").read_text())
    left = [process for process in psutil.process_iter() if process.pid == started]
    assert not kill_those_left(left, timeout_s=HANG_S)


def test_a_question_that_nobody_wants_any_more_is_stopped(program):
    program("sacct", "sleep 600")
    with pytest.raises(SlurmError, match="sacct"):
        slurm.list_accounted(["7"], patience_s=500.0, is_wanted=lambda: False)


def test_jobs_that_have_ended_are_cancelled_without_a_complaint(program, tmp_path):
    program("scancel", f'echo "$@" > {tmp_path}/called; {FORGOTTEN}')
    slurm.cancel(["8", "7", "7"], only_waiting=True)
    assert (tmp_path / "called").read_text() == "--state=PENDING 7 8\n"
    program("scancel", AWAY)
    with pytest.raises(SlurmError, match=r"scancel: .*Unable to contact"):
        slurm.cancel(["7"])
    program("scancel", "exit 3")
    slurm.cancel([])


def test_a_submitted_script_is_read_and_a_refusal_is_an_error(program, tmp_path):
    program("sbatch", f"cat > {tmp_path}/script; echo Submitted batch job 7 $@ $TZ")
    assert slurm.submit(["--time=1"], "#!/bin/sh\n").startswith("Submitted batch job 7 --time=1")
    assert (tmp_path / "script").read_text() == "#!/bin/sh\n"
    program("sbatch", "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1")
    with pytest.raises(SlurmError, match="invalid partition specified: x"):
        slurm.submit([], "")


def test_a_command_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for question in (slurm.list_queue, slurm.list_partitions, lambda: slurm.submit([], "")):
        with pytest.raises(SlurmError, match="No such file") as raised:
            question()
        assert raised.value.status is None


@pytest.mark.parametrize(
    ("limit", "minutes"), [("1-02:00:00", 1560), ("00:30:30", 30.5), ("UNLIMITED", float("inf")), (None, float("inf"))]
)
def test_a_time_limit_is_read(limit, minutes):
    assert slurm.to_minutes(limit) == minutes


def test_nodes_and_partitions_are_described(program):
    nodes = (
        "a note\nNodeName=n1 CPUTot=8 CPUEfctv=6 RealMemory=1000 MemSpecLimit=100 Gres=gpu:a100:2(S:0-1) "
        "AvailableFeatures=ib,fast OS=Linux 5 #1 SMP  Partitions=gpu,all Reason=Partitions=c"
    )
    partitions = "PartitionName=gpu Default=YES MaxTime=1-00:00:00 MaxNodes=UNLIMITED MaxMemPerNode=900"
    program(
        "scontrol",
        f'case "$*" in *--all*node) {show(nodes)};; *--all*partition) {show(partitions)};; *) exit 1;; esac',
    )
    assert slurm.describe_nodes() == [slurm.Node("n1", ("gpu", "all"), ("ib", "fast"), 6, 900, "gpu:a100:2(S:0-1)")]
    assert slurm.list_partitions() == [slurm.Partition("gpu", True, "1-00:00:00", float("inf"), 900.0)]
