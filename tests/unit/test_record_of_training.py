"""
What a process records at the end of its training: its clocks, a cold first epoch, and the work of others.

The loop itself is tested elsewhere. Here one process takes the path of any run, with a backend without a framework.
"""

import json
import time

import pytest

from howmanygpus.train.loop import train
from howmanygpus.train.loop.clocks import PHASES, find_mismatch
from howmanygpus.train.records import AttemptFolder
from specs import make_spec
from ticking import Ticking
from training.launching import write_inputs

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


def test_the_recorded_phases_have_the_seconds_of_what_was_done_in_them(do_run):
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


def test_steps_that_go_on_after_their_windows_make_a_clock_mismatch(do_run):
    outcome, _ = do_run(EndingLate, window_steps=5, prefetch=2)
    assert outcome["status"] == "clock_mismatch" and "in no phase" in outcome["reason"]
    assert outcome["phases_s"]["late"] > EndingLate.STEP_S


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


@pytest.mark.parametrize(
    ("seconds", "num_windows", "words"),
    [
        pytest.param({"window": 9.91, "late": 0.09}, 1, "", id="0.9 % late"),
        pytest.param({"window": 9.89, "late": 0.11}, 1, "in no phase", id="1.1 % late"),
        pytest.param({"window": 8.0, "evaluation": 1.89, "late": 0.11}, 1, "in no phase", id="of all phases"),
        pytest.param({"window": 0.05, "late": 0.019}, 1, "", id="19 ms late"),
        pytest.param({"window": 0.05, "late": 0.021}, 1, "in no phase", id="21 ms late"),
        pytest.param({"window": 10.0, "loss": 0.99}, 1, "", id="9.9 % of the windows"),
        pytest.param({"window": 10.0, "loss": 1.01}, 1, "reading the losses", id="10.1 % of the windows"),
        pytest.param({"window": 1.0, "loss": 0.49}, 10, "", id="49 ms in each window"),
        pytest.param({"window": 1.0, "loss": 0.51}, 10, "reading the losses", id="51 ms in each window"),
        pytest.param({"window": 1.0, "barrier": 9.0, "log": 9.0, "evaluation": 9.0}, 1, "", id="other phases"),
    ],
)
def test_a_mismatch_begins_at_one_percent_and_twenty_milliseconds(seconds, num_windows, words):
    found = find_mismatch(dict.fromkeys(PHASES, 0.0) | seconds, num_windows)
    assert words in found and bool(found) == bool(words)
