"""Test the loop's clocks on a simulated device whose signals come too early, and on one that is honest and slow."""

import itertools

import numpy as np
import pytest

from helpers.simulated_devices import STEPS, Schedule, Simulated, explain, train
from helpers.specs import make_data, make_spec
from howmanygpus.measure.loop.clocks import WindowChecks
from howmanygpus.measure.loop.completions import Completions
from howmanygpus.measure.loop.loop import TrainingLoop

LIES = {"wait": ("wait_until_idle",), "marker": ("mark_step",), "both": ("wait_until_idle", "mark_step")}
"""Methods that return at once, as if every step were complete."""
STEP_S = {"of half a millisecond": 0.0005, "of 3 ms": 0.003, "of 100 ms": 0.1}
WINDOWS = {"one step": {"window_steps": 1}, "four": {"window_steps": 4}, "all": {}, "epochs of three": {"steps": None}}


LOOP = "howmanygpus.measure.loop.loop"


@pytest.fixture(autouse=True)
def free_host(monkeypatch):
    """The host takes no time, whatever else runs on this machine."""
    monkeypatch.setattr(f"{LOOP}.time.thread_time", lambda: 0.0)
    for name in ("read_core_wait_s", "time_handover"):
        monkeypatch.setattr(f"{LOOP}.{name}", lambda: 0.0)


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


class EarlyBy(Simulated):
    """A device whose markers are complete before their steps, by a part of a step."""

    def __init__(self, schedule, steps):
        super().__init__(schedule)
        self.steps_early = steps

    def mark_step(self):
        ended = self.schedule.ended
        return ended[self.steps] - self.steps_early * (ended[self.steps] - ended[self.steps - 1])


@pytest.mark.parametrize("steps", [0.0, 0.1, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("delay_s", [0.0, 0.007, 0.0119])
def test_a_marker_that_is_early_by_a_part_of_a_step_invents_little_or_is_found_out(steps, delay_s):
    backend = EarlyBy(Schedule(0.012, [delay_s], 2), steps)
    loop = train(backend)
    assert "markers of steps do not wait" in explain(loop) or loop.clocks.data_wait_s <= 0.2 * loop.clocks.measured_s
    assert steps > 0 or (explain(loop), loop.clocks.data_wait_s) == ("", 0.0)


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
    backend = delay_last(Simulated(Schedule(0.001, [0.003], 2)), "read_window_loss", 0.05)
    counts_s = itertools.count(step=0.0 if has_core else 0.05)
    monkeypatch.setattr(f"{LOOP}.read_core_wait_s", lambda: next(counts_s))
    loop = train(backend)
    assert loop.clocks.data_wait_s > 0 and bool(explain(loop)) == has_core
    assert sum(loop.laps.seconds.values()) == pytest.approx(backend.clock())


class Computing(Simulated):
    """A device that completes each step before it returns, so that there are no markers, in no time."""

    def mark_step(self):
        return None


def test_work_of_the_host_after_a_complete_step_makes_no_marker_early(monkeypatch):
    """It takes a millisecond of work to begin the end of a window, which is longer than the step."""
    backend = Computing(Schedule(0.0, [0.003], 0))
    fast_add = Completions.add

    def add_slowly(completions, step, marker):
        fast_add(completions, step, marker)
        backend.see(backend.clock() + 0.001)

    monkeypatch.setattr(Completions, "add", add_slowly)
    monkeypatch.setattr(f"{LOOP}.time.thread_time", backend.clock)
    loop = train(backend, window_steps=1, prefetch=0)
    assert loop.clocks.data_wait_s > 0 and explain(loop) == ""


@pytest.mark.parametrize(("name", "added_s"), [("read_window_loss", 1.0), ("average_loss", 0.0)])
def test_reading_losses_is_part_of_a_window_and_their_exchange_is_not(name, added_s):
    """Processes that wait actively for each other on too few cores take a second for one exchange."""
    backend = delay_last(Simulated(Schedule(0.003, [0.0], 2)), name, 1.0)
    assert train(backend).laps.seconds["window"] == pytest.approx(backend.schedule.ended[-1] + added_s)


@pytest.mark.parametrize(
    ("num_early", "num_others", "is_shown"), [(4, 9, True), (3, 9, False), (1, 1, True), (1, 2, False)]
)
def test_markers_are_early_if_more_than_a_third_of_the_windows_show_it(num_early, num_others, is_shown):
    """A wait that lies in every other window shows it in half of them, or in one less beside other work."""
    checks = WindowChecks()
    for window in range(1 + num_others):
        rest_s = 0.01 if 1 <= window <= num_early else 0.0
        checks.add(0.01 + rest_s, 0.0, [0.01], [0.01], 0.0)
    assert (checks.compute_early_s() > 0) == is_shown
