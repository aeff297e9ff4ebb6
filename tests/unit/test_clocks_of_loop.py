"""
Test the loop's clocks on a simulated device and a simulated loader, whose times are computed beforehand.

Every thread has a clock of its own, which shows the time of what the thread has seen last: a batch that arrived, or a
step that ended. What the loop measures depends on no real time.
"""

import itertools
import threading
import time

import numpy as np
import pytest

from howmanygpus.train.host.processes import Suspensions
from howmanygpus.train.loop.loop import TrainingLoop
from howmanygpus.train.loop.train import find_doubts
from specs import make_data, make_spec
from ticking import Ticking

STEPS = 30


class Schedule:
    """When batches arrive and steps end, by step from 1, if the host takes no time.

    step_s: seconds of a step; delays_s: seconds that the loader takes for each batch, in turn. The first step is a
    window of its own, at the end of which the host waits for the device.
    """

    def __init__(self, step_s, delays_s, prefetch):
        self.ready, self.ended, self.enqueued = [0.0], [0.0], [0.0]
        taken = [0.0]
        for step in range(1, STEPS + 1):
            host = max(self.enqueued[-1], self.ended[1] if step > 1 else 0.0)
            if prefetch:
                loaded = self.ready[-1] + delays_s[(step - 1) % len(delays_s)]
                ready = max(loaded, taken[step - prefetch] if step > prefetch else 0.0)
            else:
                ready = host + delays_s[(step - 1) % len(delays_s)]
            taken.append(max(host, ready))
            earlier = self.ended[max(0, step - max(1, prefetch))]
            self.ready.append(ready)
            self.enqueued.append(max(taken[-1], earlier))
            self.ended.append(max(self.ended[-1], self.enqueued[-1]) + step_s)

    @property
    def starved_s(self):
        """Seconds after the first step in which the device had nothing to do because a batch was not there."""
        return sum(max(0.0, self.ready[step] - self.ended[step - 1]) for step in range(2, STEPS + 1))


class Simulated(Ticking):
    """Play a schedule."""

    def __init__(self, schedule):
        super().__init__()
        self.schedule, self.local = schedule, threading.local()

    def clock(self):
        return getattr(self.local, "now", 0.0)

    def see(self, moment):
        self.local.now = max(self.clock(), moment)

    def put_on_device(self, images, labels):
        self.put.append(images)
        self.see(self.schedule.ready[len(self.put)])

    def train_step(self, batch, learning_rate):
        self.steps += 1
        self.see(self.schedule.enqueued[self.steps])

    def mark_step(self):
        return self.schedule.ended[self.steps]

    def wait_for_step(self, marker):
        self.see(marker)

    def wait_until_idle(self):
        self.see(self.schedule.ended[self.steps])

    def take_window_loss(self, num_steps):
        self.see(self.schedule.ended[self.steps])
        return 0.5


class Kept:
    """Keeps events."""

    def __init__(self):
        self.kept = []

    def write(self, event, **values):
        self.kept.append({"event": event} | values)


def train(backend, events=None, **changes):
    settings = {"epochs": None, "steps": STEPS, "window_steps": 100, "warmup_steps": 1, "prefetch": 2}
    spec, data = make_spec(**settings | changes), make_data(num_train=8 * STEPS + 8, num_test=4)
    clocks = {"clock": backend.clock, "second_clock": backend.clock}
    with TrainingLoop(spec, data, backend, np.zeros(STEPS), events, **clocks) as loop:
        backend.train(loop)
    return loop


def explain(loop):
    return find_doubts(loop, Suspensions()).explain()


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
def test_input_wait_is_the_time_in_which_the_device_had_nothing_to_do(step_s, delays_s, prefetch, starved_s):
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


LIES = {"wait": ("wait_until_idle",), "marker": ("mark_step",), "both": ("wait_until_idle", "mark_step")}
"""Methods that return at once, as if every step were complete."""
STEP_S = {"of half a millisecond": 0.0005, "of 3 ms": 0.003, "of 100 ms": 0.1}
WINDOWS = {"one step": {"window_steps": 1}, "four": {"window_steps": 4}, "all": {}, "epochs of three": {"steps": None}}


def lie(backend, which):
    for name in LIES[which]:
        setattr(backend, name, lambda: None)
    return backend


def train_in_windows(backend, windows):
    """Train STEPS steps in windows of the named kind, with an evaluation after each epoch."""
    changes = WINDOWS[windows]
    if "steps" not in changes:
        return train(backend, **changes)
    spec, data = make_spec(epochs=STEPS // 3, warmup_steps=1, prefetch=2), make_data(num_train=24, num_test=8)
    clocks = {"clock": backend.clock, "second_clock": backend.clock}
    with TrainingLoop(spec, data, backend, np.zeros(STEPS), None, **clocks) as loop:
        backend.train(loop)
    return loop


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("step_s", STEP_S.values(), ids=STEP_S)
@pytest.mark.parametrize("which", [*LIES, "nothing"])
def test_no_signal_that_comes_too_early_makes_a_rate_too_high(which, step_s, windows):
    """The device is busy all the time from the first step to the last, also while the host evaluates."""
    backend = Simulated(Schedule(step_s, [0.0], 2))
    loop = train_in_windows(lie(backend, which) if which != "nothing" else backend, windows)
    assert loop.clocks.measured_steps == STEPS - 1
    assert loop.clocks.measured_s == pytest.approx(backend.schedule.ended[-1] - backend.schedule.ended[1])
    if which in ("wait", "nothing"):
        assert explain(loop) == "", "nothing is wrong with the times"


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize(("step_s", "delay_s"), [(0.0012, 0.0008), (0.012, 0.011), (0.3, 0.2)])
@pytest.mark.parametrize("which", ["marker", "both"])
def test_a_wait_for_input_that_an_early_marker_invents_is_found_out(which, step_s, delay_s, windows):
    """The loader is faster than the device, which never waits. The host waits for each batch."""
    backend = Simulated(Schedule(step_s, [delay_s], 2))
    assert backend.schedule.starved_s == 0
    loop = train_in_windows(lie(backend, which), windows)
    is_right = loop.clocks.data_wait_s <= 0.01 * loop.clocks.measured_s
    assert is_right or "markers of steps do not wait" in explain(loop)
    assert windows != "all" or not is_right, "the test shows nothing otherwise"


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("delay_s", [0.002, 0.02])
def test_a_device_that_waits_for_its_input_is_not_taken_for_early_markers(delay_s, windows):
    loop = train_in_windows(Simulated(Schedule(0.001, [delay_s], 2)), windows)
    assert loop.clocks.data_wait_s > 0 and explain(loop) == ""


def delay_last(backend, name, seconds):
    """Let a method take longer in the last window."""
    fast = getattr(backend, name)

    def slowed(value):
        result = fast(value)
        if backend.steps == STEPS:
            backend.see(backend.clock() + seconds)
        return result

    setattr(backend, name, slowed)
    return backend


@pytest.mark.parametrize("has_core", [True, False])
def test_a_thread_that_waits_for_its_core_is_not_accused(monkeypatch, has_core):
    """Between the last marker and the end of a window, the thread waits 50 ms for its core, as the kernel counts."""
    backend = delay_last(Simulated(Schedule(0.001, [0.003], 2)), "take_window_loss", 0.05)
    counts_s = itertools.count(step=0.0 if has_core else 0.05)
    monkeypatch.setattr("howmanygpus.train.loop.loop.read_core_wait_s", lambda: next(counts_s))
    loop = train(backend)
    assert loop.clocks.data_wait_s > 0 and bool(explain(loop)) == has_core
    assert sum(loop.laps.seconds.values()) == pytest.approx(backend.clock())


@pytest.mark.parametrize(("name", "added_s"), [("take_window_loss", 1.0), ("average_loss", 0.0)])
def test_reading_losses_is_part_of_a_window_and_their_exchange_is_not(name, added_s):
    """Processes that wait actively for each other on too few cores take a second for one exchange."""
    backend = delay_last(Simulated(Schedule(0.003, [0.0], 2)), name, 1.0)
    assert train(backend).laps.seconds["window"] == pytest.approx(backend.schedule.ended[-1] + added_s)


class Gated(Ticking):
    """A device that ends a step only once the host has enqueued as many more as it may, and then waits a moment."""

    clock = staticmethod(time.perf_counter)

    def __init__(self, run_ahead):
        super().__init__()
        self.run_ahead, self.most_ahead = run_ahead, 0

    def mark_step(self):
        return self.steps

    def wait_for_step(self, marker):
        deadline = time.monotonic() + 120.0
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

    class Events:
        def write(self, event, **_):
            order.append(event)

    train(Noting(), Events(), steps=4, window_steps=2)
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
