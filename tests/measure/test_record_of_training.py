"""
What a process records at the end of its training: its clocks, a cold first epoch, and the work of others.

The loop itself is tested elsewhere. Here one process takes the path of any run, with a backend without a framework.
"""

import functools
import json
import multiprocessing
import os
import subprocess
import time
from contextlib import nullcontext

import pytest

from helpers.fake_clock import Ticking
from helpers.specs import make_spec
from howmanygpus.measure.loop import train
from howmanygpus.measure.loop.clocks import PHASES
from howmanygpus.measure.loop.loop import TrainingLoop
from howmanygpus.measure.loop.tracing import UNFINISHED, Profiler, trace_run
from howmanygpus.measure.records import AttemptFolder
from measure.launching import write_inputs

BEFORE_S = 1000.0
"""Seconds between the start of the launcher and that of the process."""


class Backend(Ticking):
    def __init__(self, spec, data, weights, learning_rates):
        super().__init__()


class EndingLate(Backend):
    """A device that takes STEP_S for a step and goes on after wait_until_idle has returned."""

    STEP_S = 0.02

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ended = 0.0

    def mark_step(self):
        self.ended = max(self.ended, time.perf_counter()) + self.STEP_S
        return self.ended

    def wait_for_step(self, marker):
        time.sleep(max(0.0, marker - time.perf_counter()))


class Others:
    """Stands for what measures other work. found: the share of the cores and the number of processes on the GPUs."""

    found = (0.25, 3)
    calls: list[str]

    def __init__(self, marker, gpu_uuids):
        self.marker, self.cpu_frac, self.gpu_processes = marker, None, None
        self.calls.append("made")

    def start(self):
        self.calls.append("start")

    def stop(self):
        self.calls.append("stop")
        self.cpu_frac, self.gpu_processes = self.found


@pytest.fixture
def do_run(tmp_path, monkeypatch):
    """A function that trains in this process, in two epochs of ten steps, and returns the outcome and the events."""

    def do(backend=Backend, is_kept=True, found=(0.25, 3), **changes):
        monkeypatch.setattr(train, "load_backend", lambda spec: backend)
        monkeypatch.setattr(train, "read_images", lambda *arguments: is_kept)
        monkeypatch.setattr(train, "OtherWork", type("FakeOthers", (Others,), {"found": found, "calls": []}))
        spec = write_inputs(tmp_path, make_spec(epochs=2, warmup_steps=2, **changes), num_train=80)
        attempt = AttemptFolder(tmp_path / "attempt")
        attempt.path.mkdir()
        train.run(spec, attempt, time.time() - BEFORE_S, save_weights=False)
        events = [json.loads(line) for line in attempt.events.read_text().splitlines()]
        return json.loads(attempt.outcome.read_text()), events

    return do


def test_every_event_has_its_time_since_the_launcher_started(do_run):
    outcome, events = do_run(window_steps=5)
    assert {event["event"] for event in events} == {"window", "evaluation"}
    moments = [event["wall_s"] for event in events]
    assert moments == sorted(moments)
    assert BEFORE_S <= outcome["init_s"] <= moments[0] <= moments[-1] <= outcome["wall_time_s"] < 2 * BEFORE_S


def test_the_recorded_phases_have_the_durations_of_their_work(do_run):
    class Slow(Backend):
        def train_step(self, images, learning_rate):
            time.sleep(0.003)

        def predict(self, images):
            time.sleep(0.01)
            return super().predict(images)

    outcome, events = do_run(Slow, window_steps=5)
    assert outcome["status"] == "completed" and outcome["phases_s"].keys() == set(PHASES)
    assert outcome["phases_s"]["window"] >= 20 * 0.003 and outcome["phases_s"]["evaluation"] >= 2 * 2 * 0.01
    assert [event["event"] for event in events].count("evaluation") == 2


@pytest.mark.parametrize("window_steps", [1, 5])
def test_steps_that_go_on_after_the_wait_are_in_their_windows(do_run, window_steps):
    outcome, _ = do_run(EndingLate, window_steps=window_steps, prefetch=2)
    assert outcome["status"] == "completed", outcome["reason"]
    assert outcome["measured_s"] >= outcome["measured_steps"] * EndingLate.STEP_S


def test_markers_that_are_complete_before_their_steps_make_a_clock_mismatch(do_run):
    class Early(EndingLate):
        def wait_until_idle(self):
            time.sleep(max(0.0, self.ended - time.perf_counter()))

        def mark_step(self):
            super().mark_step()

    outcome, _ = do_run(Early, window_steps=5, prefetch=2)
    assert outcome["status"] == "clock_mismatch" and "markers" in outcome["reason"]


class Stepping:
    """The machine's clock, which is set by so many seconds once a moment has passed. Nobody set it before `start`."""

    def __init__(self, by_s):
        self.by_s, self.moment = by_s, float("inf")

    def start(self, in_s):
        self.moment = time.perf_counter() + in_s

    def __call__(self):
        now = time.perf_counter()
        return now + self.by_s if now >= self.moment else now


@pytest.mark.parametrize("by_s", [-100.0, -0.06, -0.001, 0.001, 0.06, 100.0])
@pytest.mark.parametrize("window_steps", [1, 20])
def test_a_clock_that_is_set_makes_a_clock_mismatch(do_run, monkeypatch, by_s, window_steps):
    """The record is one that the launcher publishes: its numbers are not negative."""
    clock = Stepping(by_s)

    class Slow(Backend):
        def train_step(self, images, learning_rate):
            super().train_step(images, learning_rate)
            if self.steps == 10:
                clock.start(0.002)
            time.sleep(0.003)

    monkeypatch.setattr(train, "TrainingLoop", functools.partial(TrainingLoop, clock=clock))
    outcome, _ = do_run(Slow, window_steps=window_steps)
    assert outcome["status"] == "clock_mismatch" and "clock was set" in outcome["reason"]
    times = [outcome[name] for name in ("compile_s", "warmup_s", "measured_s", "data_wait_s", "train_s", "eval_s")]
    assert min(*times, *outcome["phases_s"].values()) >= 0


@pytest.mark.parametrize("clock", [time.perf_counter, time.monotonic])
def test_an_unset_clock_agrees_with_the_hardware_clock(do_run, monkeypatch, clock):
    monkeypatch.setattr(train, "TrainingLoop", functools.partial(TrainingLoop, clock=clock))
    outcome, _ = do_run(EndingLate, window_steps=1)
    assert (outcome["status"], outcome["reason"]) == ("completed", "")


def stop_for(seconds):
    """Stop this process, as SLURM does when it suspends a job, and have it continued."""
    subprocess.Popen(["sh", "-c", f"kill -STOP {os.getpid()}; sleep {seconds}; kill -CONT {os.getpid()}"]).wait()


@pytest.mark.parametrize(("step", "status"), [(None, "completed"), (3, "suspended"), (17, "suspended")])
def test_a_run_that_was_stopped_and_continued_is_no_measurement(do_run, tmp_path, step, status):
    class Stopped(Backend):
        def train_step(self, images, learning_rate):
            super().train_step(images, learning_rate)
            if self.steps == step:
                stop_for(0.2)

    # A shell whose own child is stopped would take back the terminal.
    process = multiprocessing.get_context("fork").Process(target=do_run, args=(Stopped,))
    process.start()
    process.join()
    outcome = json.loads(AttemptFolder(tmp_path / "attempt").outcome.read_text())
    assert outcome["status"] == status, outcome["reason"]
    for word in ("stopped 1 x", "retry_runs.py --status suspended"):
        assert (word in outcome["reason"]) == (status != "completed")


def test_a_machine_that_slept_is_noticed(do_run, monkeypatch):
    """CLOCK_BOOTTIME goes on while a machine sleeps, and CLOCK_MONOTONIC does not."""
    read, slept_s = time.clock_gettime, [0.0]

    class Sleeping(Backend):
        def train_step(self, images, learning_rate):
            super().train_step(images, learning_rate)
            slept_s[0] = 30.0

    monkeypatch.setattr(time, "clock_gettime", lambda name: read(name) + slept_s[0] * (name == time.CLOCK_BOOTTIME))
    outcome, _ = do_run(Sleeping)
    assert outcome["status"] == "suspended" and "slept for 30 s" in outcome["reason"]


@pytest.mark.parametrize(("is_kept", "measured_steps"), [(True, 18), (False, 10)])
def test_a_first_epoch_that_memory_could_not_hold_is_recorded_and_in_no_rate(do_run, is_kept, measured_steps):
    outcome, events = do_run(is_kept=is_kept)
    assert outcome["cold_first_epoch"] is not is_kept and outcome["measured_steps"] == measured_steps
    measured = [event for event in events if event.get("phase") == "train"]
    assert {event["epoch"] for event in measured} == ({1, 2} if is_kept else {2})


@pytest.mark.parametrize(
    ("found", "recorded"),
    [
        ((0.25, 3), {"other_cpu_frac": 0.25, "other_gpu_processes": 3}),
        ((0.0, 0), {"other_cpu_frac": 0.0, "other_gpu_processes": 0}),
        ((None, None), {"other_cpu_frac": None, "other_gpu_processes": None}),
    ],
)
def test_the_work_of_others_is_recorded_and_unknown_is_not_none_of_it(do_run, found, recorded):
    outcome, _ = do_run(found=found)
    assert outcome["disturbance"] == recorded and train.OtherWork.calls == ["made", "start", "stop"]


def test_the_node_with_the_most_other_work_counts():
    """A process that is not the first of its node measures nothing itself."""
    backend = Backend(None, None, None, None)
    backend.max_over_ranks = lambda value: max(value, 0.5)
    assert train.describe_disturbance(backend, None) == {"other_cpu_frac": 0.5, "other_gpu_processes": 0}


class Noting(Profiler):
    """Writes an empty trace."""

    def start(self):
        pass

    def mark(self, name):
        return nullcontext()

    def stop(self):
        (self.folder / "raw").write_text("")
        return self.folder / "raw"


def test_a_trace_comes_after_the_outcome_and_is_added_to_it(do_run, tmp_path, monkeypatch):
    seen = []

    class Looking(Backend):
        def train_step(self, images, learning_rate):
            super().train_step(images, learning_rate)
            if self.steps == 21:
                seen.append(json.loads((tmp_path / "attempt" / "outcome.json").read_text()))

    monkeypatch.setattr(train, "trace_run", functools.partial(trace_run, load=Noting))
    outcome, events = do_run(Looking, trace=True)
    (before,) = seen
    assert before["trace"] == {"problem": UNFINISHED}
    assert before.keys() == outcome.keys() and (outcome["steps"], outcome["images_seen"]) == (20, 160)
    assert all(outcome[key] == before[key] for key in before if key not in ("trace", "code"))
    assert outcome["trace"]["problem"] is None and outcome["trace"]["file"] == "trace.json.gz"
    assert [event["step"] for event in events if event["event"] == "evaluation"] == [10, 20]


def test_a_broken_profiler_leaves_the_run_completed_with_the_reason(do_run):
    """PyTorch, and so its profiler, cannot be imported here."""
    outcome, _ = do_run(trace=True)
    assert outcome["status"] == "completed" and outcome["steps"] == 20
    assert "torch" in outcome["trace"]["problem"]


@pytest.mark.parametrize("num_processes", [1, 2])
def test_an_error_in_a_traced_step_leaves_the_run_completed(do_run, monkeypatch, num_processes):
    """With others that wait for it in a collective, the process leaves at once."""

    class Failing(Backend):
        def train_step(self, images, learning_rate):
            super().train_step(images, learning_rate)
            if self.steps == 22:
                raise MemoryError("no room for kernels")

    left = []
    monkeypatch.setattr(Failing, "num_processes", num_processes)
    monkeypatch.setattr(train.os, "_exit", left.append)
    monkeypatch.setattr(train, "trace_run", functools.partial(trace_run, load=Noting))
    outcome, _ = do_run(Failing, trace=True, num_gpus=num_processes)
    assert (outcome["status"], outcome["steps"]) == ("completed", 20)
    assert outcome["trace"] == {"problem": "MemoryError: no room for kernels"}
    assert left == [1] * (num_processes > 1)


def test_runs_that_failed_or_were_not_to_be_traced_have_no_trace(do_run):
    assert "trace" not in do_run()[0]


def test_a_run_that_diverged_is_not_traced(do_run):
    class Diverging(Backend):
        def read_window_loss(self, num_steps):
            return float("nan")

    outcome, _ = do_run(Diverging, trace=True)
    assert outcome["status"] == "diverged" and "trace" not in outcome
