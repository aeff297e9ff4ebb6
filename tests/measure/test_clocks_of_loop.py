"""Test the loop's clocks on a simulated device and a simulated loader, and how far the host runs ahead."""

import threading
import time

import numpy as np
import pytest

from hanging import HANG_S
from helpers.fake_clock import Ticking
from helpers.simulated_devices import STEPS, Kept, Schedule, Simulated, explain, train
from helpers.specs import make_data, make_spec
from howmanygpus.measure.loop.loop import TrainingLoop


@pytest.mark.parametrize(
    ("step_s", "delays_s", "prefetch", "starved_s"),
    [
        pytest.param(0.005, [0.015], 2, 29 * 0.010, id="starved in every step"),
        pytest.param(0.005, [0.015], 0, 0.015 + 28 * 0.010, id="loaded in line"),
        pytest.param(0.012, [0.008], 2, 0.0, id="never starved, though the host waits for each batch"),
        pytest.param(0.012, [0.008], 0, 0.008, id="loaded in line, while the device is busy"),
        pytest.param(0.005, [0.085, *[0.0] * 5], 2, None, id="bursts"),
        pytest.param(0.5, [0.497, 0.503], 2, None, id="starved for few milliseconds"),
    ],
)
def test_input_wait_counts_the_idle_time_of_the_device(step_s, delays_s, prefetch, starved_s):
    """In line, the loader begins with the second batch once the window of the first step has ended."""
    schedule = Schedule(step_s, delays_s, prefetch)
    loop = train(Simulated(schedule), prefetch=prefetch)
    if starved_s is None:
        assert 0 < schedule.starved_s < (STEPS - 1) * max(delays_s)
    else:
        assert schedule.starved_s == pytest.approx(starved_s, abs=1e-9)
    assert loop.clocks.data_wait_s == pytest.approx(schedule.starved_s, abs=1e-9)
    assert loop.clocks.measured_s == pytest.approx(schedule.ended[-1] - schedule.ended[1])


def test_steps_are_timed_one_by_one():
    schedule, events = Schedule(0.004, [0.0], 2), Kept()
    schedule.ended[-1] += 0.1
    train(Simulated(schedule), events, window_steps=10)
    steps_s = [step_s for event in events.kept for step_s in event.get("steps_s", [])]
    assert steps_s == pytest.approx([0.004] * (STEPS - 1) + [0.104])


def test_phases_add_up_to_the_time_of_the_loop():
    backend = Simulated(Schedule(0.003, [0.001], 2))
    loop = train(backend, window_steps=5)
    assert sum(loop.laps.seconds.values()) == pytest.approx(backend.clock())
    assert loop.laps.seconds["window"] == pytest.approx(backend.schedule.ended[-1])
    assert explain(loop) == ""


class Gated(Ticking):
    """A device that ends a step only once the host has enqueued as many more as it may, and then waits a moment."""

    clock = staticmethod(time.perf_counter)

    def __init__(self, run_ahead):
        super().__init__()
        self.run_ahead, self.most_ahead = run_ahead, 0

    def mark_step(self):
        return self.steps

    def wait_for_step(self, marker):
        deadline = time.monotonic() + HANG_S
        last = 1 if marker == 1 else min(marker + self.run_ahead - 1, STEPS)
        while self.steps < last and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.005)
        self.most_ahead = max(self.most_ahead, self.steps - marker)

    def wait_until_idle(self):
        pass


@pytest.mark.parametrize("prefetch", [0, 1, 2, 5])
def test_the_host_runs_ahead_by_as_many_steps_as_batches_are_fetched_ahead(prefetch):
    """The first step is a window of its own, so that the host enqueues no other before it ends."""
    backend = Gated(max(1, prefetch))
    train(backend, prefetch=prefetch, steps=STEPS, warmup_steps=0)
    assert backend.most_ahead == backend.run_ahead - 1


def test_an_error_of_a_step_in_progress_reaches_the_training():
    class Failing(Simulated):
        def wait_for_step(self, marker):
            super().wait_for_step(marker)
            if self.steps > 3:
                raise MemoryError("out of device memory")

    with pytest.raises(MemoryError, match="out of device memory"):
        train(Failing(Schedule(0.001, [0.0], 2)))
    assert not [thread for thread in threading.enumerate() if thread.name in ("completions", "feed")]


def test_no_process_opens_a_window_before_the_first_has_written():
    """max_over_ranks is the barrier: it stands between the event of one window and the first step of the next."""
    order = []

    class Noting(Ticking):
        def max_over_ranks(self, value):
            order.append("barrier")
            return value

        def train_step(self, batch, learning_rate):
            super().train_step(batch, learning_rate)
            order.append("step")

    class EventSink:
        def write(self, event, **_):
            order.append(event)

    train(Noting(), EventSink(), steps=4, window_steps=2)
    written = [index for index, what in enumerate(order) if what in ("window", "evaluation")]
    before_steps = [index for index in written if "step" in order[index:]]
    assert len(before_steps) == 2
    for index in before_steps:
        assert "barrier" in order[index : index + order[index:].index("step")]


def test_a_cold_first_epoch_is_in_no_rate():
    data = make_data(num_train=80, num_test=4)
    for is_cold, measured in ((False, 18), (True, 10)):
        backend, spec = Ticking(), make_spec(epochs=2, warmup_steps=2)
        with TrainingLoop(spec, data, backend, np.zeros(20), None, is_cold=is_cold, clock=backend.clock) as loop:
            backend.train(loop)
        assert loop.clocks.measured_steps == measured


def test_the_work_of_others_is_measured_from_the_first_measured_step_to_the_last():
    seen = []

    class Others:
        def start(self):
            seen.append(("start", backend.steps))

        def stop(self):
            seen.append(("stop", backend.steps))

    backend, spec = Ticking(), make_spec(epochs=2, warmup_steps=3)
    data = make_data(num_train=80, num_test=4)
    with TrainingLoop(spec, data, backend, np.zeros(20), None, Others(), clock=backend.clock) as loop:
        backend.train(loop)
    assert seen == [("start", 3), ("stop", 20)]
