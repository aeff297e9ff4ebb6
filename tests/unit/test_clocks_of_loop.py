"""Test the loop's clocks on a simulated device: a thread that takes real time and knows itself when it was idle."""

import queue
import threading
import time

import numpy as np
import pytest
from test_loop import Ticking

from howmanygpus.train.loop.clocks import find_mismatch
from howmanygpus.train.loop.loop import TrainingLoop
from specs import make_data, make_spec

STEPS = 30


class Simulated(Ticking):
    """A device that takes step_s seconds for each step. It notes when it began and ended each."""

    clock = staticmethod(time.perf_counter)

    def __init__(self, step_s):
        super().__init__()
        self.step_s, self.work = step_s, queue.Queue()
        self.began, self.ended, self.outstanding = [], [], []
        self.enqueued = threading.Event()
        self.enqueued.set()
        threading.Thread(target=self._take_steps, daemon=True).start()

    def _take_steps(self):
        while True:
            done = self.work.get()
            self.began.append(time.perf_counter())
            time.sleep(self.step_s)
            self.ended.append(time.perf_counter())
            done.set()

    def train_step(self, batch, learning_rate):
        self.outstanding.append(self.steps - len(self.ended))
        self.steps += 1
        self.enqueued = threading.Event()
        self.work.put(self.enqueued)

    def mark_step(self):
        return self.enqueued

    def wait_for_step(self, marker):
        marker.wait()

    def wait_until_idle(self):
        self.enqueued.wait()

    def take_window_loss(self, num_steps):
        self.enqueued.wait()
        return 0.5

    def starved_s(self, ready):
        """Seconds without work in which the next batch was not there; `ready` has the times at which batches were."""
        steps = range(2, STEPS)  # the first step is a window of its own
        return sum(max(0.0, ready[step] - self.ended[step - 1]) for step in steps)


class Kept:
    """Keeps events."""

    def __init__(self):
        self.kept = []

    def write(self, event, **values):
        self.kept.append({"event": event} | values)


def train(backend, delays_s=(0.0,), events=None, **changes):
    """Train STEPS steps. delays_s: seconds that the loader takes for each batch, in turn."""
    spec = make_spec(
        **{"epochs": None, "steps": STEPS, "window_steps": 100, "warmup_steps": 1, "prefetch": 2} | changes
    )
    data = make_data(num_train=8 * STEPS + 8, num_test=4)
    loop = TrainingLoop(spec, data, backend, np.zeros(STEPS, np.float32), events)
    batches, loop.ready = list(loop.training_batches), []

    def load():
        for step, batch in enumerate(batches):
            time.sleep(delays_s[step % len(delays_s)])
            loop.ready.append(time.perf_counter())
            yield batch

    loop.host_batches = load
    with loop:
        backend.train(loop)
    return loop


@pytest.mark.parametrize(
    ("step_s", "delays_s", "is_starved"),
    [
        pytest.param(0.005, [0.015], True, id="starved in every step"),
        pytest.param(0.012, [0.008], False, id="never starved, though the host waits for each batch"),
        pytest.param(0.005, [0.08, 0.0, 0.0, 0.0, 0.0, 0.0], True, id="bursts"),
    ],
)
@pytest.mark.parametrize("prefetch", [0, 2])
def test_input_wait_is_the_time_in_which_the_device_had_nothing_to_do(step_s, delays_s, is_starved, prefetch):
    backend = Simulated(step_s)
    loop = train(backend, delays_s, prefetch=prefetch)
    truth_s = backend.starved_s(loop.ready)
    assert loop.clocks.data_wait_s == pytest.approx(truth_s, rel=0.2, abs=0.05 * loop.clocks.measured_s)
    assert (truth_s > 0.3 * loop.clocks.measured_s) == is_starved


@pytest.mark.parametrize("prefetch", [0, 1, 2, 5])
def test_the_host_runs_ahead_by_as_many_steps_as_batches_are_fetched_ahead(prefetch):
    backend = Simulated(0.003)
    train(backend, prefetch=prefetch)
    most = max(1, prefetch)
    assert max(backend.outstanding) == most - 1, "steps in progress when another one is enqueued"


def test_steps_are_timed_one_by_one():
    class Slowing(Simulated):
        def mark_step(self):
            if self.steps == STEPS - 1:
                self.wait_until_idle()
                self.step_s *= 20
            return super().mark_step()

    events = Kept()
    train(Slowing(0.004), events=events, window_steps=10)
    steps_s = [step_s for event in events.kept for step_s in event.get("steps_s", [])]
    assert len(steps_s) == STEPS
    assert steps_s[-1] >= 0.08 > np.median(steps_s)


def test_phases_add_up_to_the_time_of_the_loop():
    backend = Simulated(0.003)
    started = time.perf_counter()
    loop = train(backend, window_steps=5)
    elapsed_s = time.perf_counter() - started
    assert sum(loop.laps.seconds.values()) == pytest.approx(loop.laps.last_end - started, rel=0.05, abs=0.02)
    assert sum(loop.laps.seconds.values()) <= elapsed_s
    assert loop.laps.seconds["window"] >= STEPS * 0.003
    assert find_mismatch(loop.laps.seconds) == ""


def test_a_wait_that_does_not_wait_is_found_out():
    backend = Simulated(0.03)
    backend.wait_until_idle = lambda: None
    loop = train(backend)
    assert loop.clocks.measured_s < backend.ended[-1] - backend.ended[0] - 0.03, "the rate is too high"
    assert "in no phase" in find_mismatch(loop.laps.seconds)


def test_a_wait_and_a_marker_that_do_not_wait_are_found_out():
    backend = Simulated(0.03)
    backend.wait_until_idle = backend.mark_step = lambda: None
    loop = train(backend)
    assert "reading the losses took" in find_mismatch(loop.laps.seconds)


def test_an_error_of_a_step_in_progress_reaches_the_training():
    class Failing(Simulated):
        def wait_for_step(self, marker):
            super().wait_for_step(marker)
            if self.steps > 3:
                raise MemoryError("out of device memory")

    with pytest.raises(MemoryError, match="out of device memory"):
        train(Failing(0.001))
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

    class Events:
        def write(self, event, **_):
            order.append(event)

    backend = Noting()
    spec, data = make_spec(epochs=None, steps=4, window_steps=2, warmup_steps=1), make_data(num_train=80)
    with TrainingLoop(spec, data, backend, np.zeros(4), Events(), clock=backend.clock) as loop:
        backend.train(loop)
    for index, what in enumerate(order):
        if what in ("window", "evaluation") and "step" in order[index:]:
            assert "barrier" in order[index : index + order[index:].index("step")]
