"""SLURM's reasons for which jobs wait are told regularly, and at once if they cannot clear."""

from dataclasses import replace
from datetime import datetime

import pytest

from helpers.fake_slurm import pretend, show
from howmanygpus.invocation import waiting
from howmanygpus.invocation.waiting import Watch, describe_queue
from howmanygpus.site.slurm import Job

CALL = "a-call"
STARTS = datetime(2026, 11, 23, 4).timestamp()


def make_jobs(*reasons, first_id=7, start=None):
    waiting_job = Job(
        "7", "PENDING", partition="gpu", time_limit="01:05:00", comment="rule_train_wildcards_digits_a_gpus1"
    )
    return [
        replace(waiting_job, id=f"{first_id + i}", reason=reason, started_at=start) for i, reason in enumerate(reasons)
    ]


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
        ("ReqNodeNotAvail, Reserved for maintenance", "`scontrol show reservation` says until when"),
        ("ReqNodeNotAvail, May be reserved for other job", "A reservation ends by itself"),
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


def test_a_job_is_named_when_its_reason_becomes_an_obstacle(watch):
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
    jobs = [*make_jobs("Priority", start=STARTS), *make_jobs("PartitionTimeLimit")]
    assert describe_queue(jobs) == (
        "2 jobs wait in SLURM's queue: 1 for Priority, 1 for PartitionTimeLimit (cannot start); SLURM expects the "
        "first to start at 2026-11-23T04:00:00"
    )


def test_only_jobs_of_the_call_that_slurm_has_considered_are_listed(tmp_path, monkeypatch):
    line = "{id}|PENDING|N/A|N/A|1:00||{reason}|gpu|me|{name}|a"
    considered = (("7", "Priority", "jax_a-call"), ("8", "None", "jax_a-call"), ("9", "Priority", "jax_other"))
    printed = [line.format(id=id_, reason=reason, name=name) for id_, reason, name in considered]
    pretend(monkeypatch, tmp_path, "squeue", show("\n".join(printed)))
    assert [job.id for job in waiting.list_waiting(CALL)] == ["7"]
