"""SLURM's reasons for which jobs wait are told regularly, and at once if they cannot clear."""

import os

import pytest

from howmanygpus.call import waiting
from howmanygpus.call.waiting import Watch, describe_queue, parse_queue

CALL = "a-call"
LINE = "jax_gpus1_a-call|{id}|{reason}|gpu|01:05:00|{start}|rule_train_wildcards_digits_a_gpus1"


def make_jobs(*reasons, first_id=7, start="N/A"):
    lines = [LINE.format(id=first_id + i, reason=reason, start=start) for i, reason in enumerate(reasons)]
    return parse_queue("\n".join(lines) + "\n", CALL)


@pytest.fixture
def watch():
    """Return a watch and the list of what it says."""
    said = []
    return Watch(said.append), said


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("PartitionTimeLimit", "the time limit of 01:05:00 exceeds the longest job of the partition gpu; lower"),
        ("PartitionNodeLimit", "`scontrol show partition gpu`"),
        ("BadConstraints", "no node of the partition gpu has what is asked for"),
        ("ReqNodeNotAvail, UnavailableNodes:node[1-3]", "`sinfo -R`"),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            "are down, drained or reserved; `sinfo -R`",
        ),
        ("PartitionDown", "down, drained or reserved"),
        ("JobHeldUser", "`scontrol release JOB`"),
        ("QOSMaxWallDurationPerJobLimit", "than the account or QOS allows one job"),
        ("QOSMaxGRESPerJob", "than the account or QOS allows one job"),
        ("QOSMaxCpuPerNode", "than the account or QOS allows one job"),
        ("AssocMaxMemPerNode", "than the account or QOS allows one job"),
        ("AssocMaxWallDurationPerJobLimit", "than the account or QOS allows one job"),
        ("QOSMaxCpuMinutesPerJobLimit", "than the account or QOS allows one job"),
        ("QOSMinCpuNotSatisfied", "than the account or QOS allows one job"),
        ("AssocGrpCPUMinutesLimit", "the account's budget is used up"),
        ("AssocGrpGRESMinutes", "the account's budget is used up"),
        ("QOSGrpWallLimit", "the account's budget is used up"),
        ("ReservationDeleted", "its reservation is over; remove `--reservation`"),
        ("InvalidQOS", "may not use the partition gpu"),
    ],
)
def test_a_reason_that_cannot_clear_is_named_at_once_with_the_remedy(watch, reason, words):
    watch, said = watch
    watch.look(make_jobs(reason))
    (message,) = said
    assert message.startswith("SLURM cannot start job 7 (train digits_a_gpus1), as things are: " + reason)
    assert words in message
    watch.look(make_jobs(reason))
    assert len(said) == 1, "a job is named once"


@pytest.mark.parametrize(
    "reason",
    [
        *("Priority", "Resources", "Dependency", "BeginTime", "Licenses", "Reservation", "AssocGrpCPURunMinutesLimit"),
        *("QOSMaxJobsPerUserLimit", "QOSGrpGRES", "AssocGrpNodeLimit", "None", "AssocMaxJobsLimit", "QOSGrpJobsLimit"),
        *("QOSMaxGRESPerUser", "QOSMaxCpuPerUserLimit", "QOSMaxSubmitJobPerUserLimit", "AssocGrpCpuLimit"),
        *(
            "MaxGRESPerAccount",
            "MaxJobsPerAccount",
            "QOSGrpCPURunMinutesLimit",
            "AssocGrpGRESRunMinutes",
            "QOSGrpMemLimit",
        ),
    ],
)
def test_a_reason_that_clears_by_itself_is_not_named_at_once(watch, reason):
    watch, said = watch
    watch.look(make_jobs(reason))
    assert said == []


def test_jobs_with_the_same_obstacle_are_one_message(watch):
    watch, said = watch
    watch.look(make_jobs(*["BadConstraints"] * 5, "Priority"))
    (message,) = said
    assert "start jobs 7 (train" in message and ", 9 (train" in message and "and 2 more, as" in message


def test_a_job_whose_reason_changes_to_an_obstacle_is_named_then(watch):
    watch, said = watch
    watch.look(make_jobs("Priority"))
    watch.look(make_jobs("JobHeldAdmin"))
    assert len(said) == 1 and "job 7" in said[0]


def test_other_words_for_the_same_obstacle_do_not_name_the_job_again(watch):
    watch, said = watch
    watch.look(make_jobs("ReqNodeNotAvail, UnavailableNodes:node[1-3]"))
    watch.look(make_jobs("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"))
    assert len(said) == 1


def test_all_waiting_jobs_are_counted_every_few_minutes(watch, monkeypatch):
    watch, said = watch
    started, jobs = waiting.time.monotonic(), make_jobs("Priority", "Priority", "Resources")
    for passed_s, messages in (
        (1, 0),
        (waiting.REPORT_S + 1, 1),
        (waiting.REPORT_S + 9, 1),
        (2.1 * waiting.REPORT_S, 2),
    ):
        monkeypatch.setattr(waiting.time, "monotonic", lambda at=started + passed_s: at)
        watch.look(jobs)
        assert len(said) == messages, passed_s
    assert said[0] == "3 jobs wait in SLURM's queue: 2 for Priority, 1 for Resources"


def test_the_count_marks_obstacles_and_has_the_first_expected_start():
    jobs = [*make_jobs("Priority", start="2026-11-23T04:00:00"), *make_jobs("PartitionTimeLimit")]
    assert describe_queue(jobs) == (
        "2 jobs wait in SLURM's queue: 1 for Priority, 1 for PartitionTimeLimit (cannot start); SLURM expects the "
        "first to start at 2026-11-23T04:00:00"
    )


def test_a_controller_that_does_not_answer_is_asked_again(monkeypatch):
    def wait(command, timeout, **_):
        raise waiting.subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(waiting.subprocess, "run", wait)
    assert waiting.list_waiting("the-call") is None


def test_another_job_whose_name_is_not_utf8_does_not_end_the_messages(tmp_path, monkeypatch):
    printed = f"{LINE.format(id=7, reason='Priority', start='N/A')}\n".encode()
    (tmp_path / "printed").write_bytes("prüfung|6|Priority|gpu|1:00|N/A|(null)\n".encode("latin-1") + printed)
    (tmp_path / "squeue").write_text(f"#!/bin/sh\ncat {tmp_path}/printed\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert [job.id for job in waiting.list_waiting(CALL)] == ["7"]


def test_the_expected_start_is_asked_for_in_the_format_that_is_read(tmp_path, monkeypatch):
    (tmp_path / "printed").write_text(f"{LINE.format(id=7, reason='Priority', start='2026-11-23T04:00:00')}\n")
    (tmp_path / "squeue").write_text(f'#!/bin/sh\n[ "$SLURM_TIME_FORMAT" = standard ] && cat {tmp_path}/printed\n')
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    assert [job.starts_at for job in waiting.list_waiting(CALL)] == ["2026-11-23T04:00:00"]
