"""What is left of a call is estimated from the runs that it has measured."""

from types import SimpleNamespace

import pytest

from howmanygpus.invocation.progress import tracking
from howmanygpus.invocation.progress.tracking import Step, Tracker
from howmanygpus.study.durations import Duration, ExpectedDuration
from howmanygpus.study.runs import Run

RUNS = "runs"


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(tracking.time, "monotonic", lambda: clock.now)
    return clock


def make_run(num_gpus=1, repeat=1, **values):
    usual = {"study": "small", "framework": "sleeping", "variant": "base", "input": "arrays", "precision": "fp32"}
    return Run(**usual | {"device": "cpu", "per_device_batch_size": 64} | values, num_gpus=num_gpus, repeat=repeat)


def make_tracker(*runs, is_serial=True, expected_s=None, **expected):
    steps = {number: Step(None, RUNS, run) for number, run in enumerate(runs)}
    known = {run.path: ExpectedDuration(expected_s, "records", **expected) for run in runs}
    return Tracker(steps, is_serial, known if expected_s else {})


def do(tracker, clock, job_id, seconds, **ended):
    tracker.begin(job_id)
    clock.now += seconds
    tracker.finish(job_id, **ended)


def test_the_median_of_the_same_configuration_counts(clock):
    tracker = make_tracker(*(make_run(repeat=repeat) for repeat in range(1, 6)), expected_s=1000.0)
    assert tracker.estimate_left() == Duration(5000.0)
    for job_id, seconds in enumerate((10.0, 12.0, 90.0)):
        do(tracker, clock, job_id, seconds, wall_time_s=seconds - 2)
    assert tracker.estimate_left() == Duration(24.0)
    tracker.begin(3)
    clock.now += 5
    assert tracker.estimate_left() == Duration(19.0), "a run that goes on has used a part of its time"


def test_the_records_count_for_others_with_what_a_job_takes_beside_its_run(clock):
    tracker = make_tracker(make_run(1), make_run(2), make_run(4), expected_s=100.0)
    do(tracker, clock, 0, 13.0, wall_time_s=10.0)
    assert tracker.estimate_left() == Duration(206.0)


def test_what_is_not_known_is_said(clock):
    assert make_tracker(make_run()).estimate_left() == Duration(0.0, 0.0, is_complete=False)
    assert make_tracker(make_run(), expected_s=3600.0, is_limit=True).estimate_left() == Duration(0.0, 3600.0)


def test_runs_at_the_same_time_share_the_rest_and_waits_in_the_queue_do_not_count(clock):
    tracker = make_tracker(*(make_run(repeat=repeat) for repeat in range(1, 6)), is_serial=False)
    do(tracker, clock, 0, 500.0, wall_time_s=10.0)
    assert tracker.estimate_left(num_started=2) == Duration(20.0)
    tracker.begin(1)
    clock.now += 100.0
    assert tracker.estimate_left(num_started=2) == Duration(20.0), "it is in the queue"
    tracker.steps[1].started_at = clock.now - 4
    assert tracker.estimate_left(num_started=2) == Duration(18.0)


def test_failed_and_blocked_runs_are_counted_and_not_waited_for(clock):
    tracker = make_tracker(*(make_run(repeat=repeat) for repeat in range(1, 6)), expected_s=10.0)
    do(tracker, clock, 0, 1.0)
    do(tracker, clock, 1, 1.0, is_completed=False)
    tracker.fail(2, is_final=True)
    tracker.block({make_run(repeat=4).path})
    assert tracker.count(RUNS) == "2 of 5 done, 1 without a result, 1 failed, 1 cannot begin"
    assert tracker.estimate_left() == Duration(10.0)
    tracker.fail(4, is_final=False)
    assert tracker.estimate_left() == Duration(10.0), "it is tried again"


def test_short_names_have_what_the_runs_differ_in():
    first, second = make_run(), make_run(2)
    assert make_tracker(first, second).name(second) == "sleeping 2 x cpu batch 64"
    other = make_run(2, variant="best", num_nodes=2, repeat=3)
    assert make_tracker(first, other).name(other) == "sleeping best 2 x cpu on 2 nodes batch 64 repeat 3"
    assert make_tracker(first, other).name(first) == "sleeping base 1 x cpu batch 64 repeat 1"
