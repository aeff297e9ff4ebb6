"""
The clocks of a run, and signs that they are wrong.

Every moment of the loop belongs to one phase. Signals that come too early cannot shorten a window, because it ends with
the last of three (loop.py). This module looks for the faults that remain: a clock that steps, markers that are complete
before their steps, impossible values, and suspended processes.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from howmanygpus.measure.host.processes import describe_suspension

PHASES = ("window", "barrier", "log", "evaluation")
"""Activities of a process: take the steps of a window; wait for the other processes and exchange numbers with them;
write events; evaluate, and measure gradient noise."""
SLEW = 0.002
"""Largest fraction by which two clocks of a machine may differ. NTP slews by up to 0.0005, and quartz differs less."""
READINGS, CLOSE_S = 3, 20e-6
"""Attempts to read both clocks within CLOSE_S. The thread may lose its core between the two readings."""
END_S, READ_S = 2e-3, 1e-4
"""Longest processor time that ending a window is assumed to take: per window, and per step for reading its loss."""
EARLY_FACTOR, EARLY_MIN_S = 0.25, 3e-4
"""A marker counts as early if more of the window follows it than this, in steps and in seconds.

A step takes the mean time of a step in the window, or the median time from the beginning of one to its marker if that
is shorter. An honest marker leaves only the time in which threads notice the end: on one core, beside other programs,
more than a quarter of a step of 10 ms in one window of a hundred.
"""
HANDOVERS = 4
"""Number of times that the end of a window waits for another thread, such as the loader's, to release the GIL, which
takes up to 5 ms (sys.getswitchinterval): after each of the three signals, and once in the thread of markers."""
EARLY_FRAC, INVENTED_FRAC = 0.1, 0.01
"""Early markers matter if the times of the steps lack at least the first fraction of the window, or if the wait for
input is at least the second."""
EARLY_WINDOWS = 1 / 3
"""Markers count as early if more than this fraction of the windows shows it. A wait hides it in a window."""
ROUNDING_S = 1e-9
SLEPT_S = 0.1
"""Shortest sleep of the machine that counts, because its two clocks are not read at the same moment."""


def read_second_clock() -> float:
    """Return the seconds of the machine's hardware clock, which nothing sets or slews."""
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


def time_handover() -> float:
    """Release the GIL once, and return the seconds until this thread has it again."""
    started = time.perf_counter()
    time.sleep(0)
    return time.perf_counter() - started


@dataclass
class Clocks:
    """Seconds of the run so far, by kind of window; the slowest process counts.

    own_measured_s, own_data_wait_s: those of this process in the measured windows, before it waits for the others.
    """

    compile_s: float = 0.0
    warmup_s: float = 0.0
    measured_s: float = 0.0
    eval_s: float = 0.0
    data_wait_s: float = 0.0
    measured_steps: int = 0
    own_measured_s: float = 0.0
    own_data_wait_s: float = 0.0

    @property
    def train_s(self) -> float:
        """All training steps but the first, warm-up included."""
        return self.warmup_s + self.measured_s


class PhaseTimer:
    """Seconds of this process by phase. Each phase begins when the one before ends.

    apart_s: seconds by which a second clock disagrees, added up over the phases so that no step back undoes another.
    """

    def __init__(self, clock: Callable[[], float], second_clock: Callable[[], float]):
        self._clocks = clock, second_clock
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.apart_s = 0.0
        self.last_end, self._second, self._between_s = self._read()

    def _read(self) -> tuple[float, float, float]:
        """Return the moment by both clocks, and the seconds between the two readings."""
        clock, second_clock = self._clocks
        between_s, tries = float("inf"), 0
        while between_s > CLOSE_S and tries < READINGS:
            before, now, after = second_clock(), clock(), second_clock()
            if after - before < between_s:
                between_s, found = after - before, (now, before)
            tries += 1
        return *found, between_s

    def end(self, phase: str) -> float:
        """End a phase now and return its seconds; 0 if the clock was set back."""
        now, second, between_s = self._read()
        elapsed_s, second_s = now - self.last_end, second - self._second
        self.apart_s += max(0.0, abs(elapsed_s - second_s) - SLEW * second_s - between_s - self._between_s)
        self.last_end, self._second, self._between_s = now, second, between_s
        self.seconds[phase] += max(0.0, elapsed_s)
        return max(0.0, elapsed_s)


@dataclass
class ClockFaults:
    """Signs that the clocks of this process are wrong; there is none if all values are 0.

    apart_s: disagreement of two clocks. impossible_windows: number of windows with impossible values. early_s: mean
    rest of a window after its last marker, if markers are early. stops: how often the process was continued after a
    stop. slept_s: seconds in which the machine slept.
    """

    apart_s: float = 0.0
    impossible_windows: float = 0.0
    early_s: float = 0.0
    stops: float = 0.0
    slept_s: float = 0.0

    def over_ranks(self, max_over_ranks: Callable[[float], float]) -> "ClockFaults":
        """Return the largest value of each sign over all processes. Every process must call it."""
        return ClockFaults(*(max_over_ranks(float(value)) for value in dataclasses.astuple(self)))

    def judge(self) -> dict[str, str]:
        """Return status and reason of a run whose times cannot be trusted; empty if there is no sign against them."""
        if self.stops:
            return describe_suspension(f"its processes were stopped {self.stops:.0f} x and continued")
        if self.slept_s > SLEPT_S:
            return describe_suspension(f"the machine slept for {self.slept_s:.3g} s")
        reason = ""
        if self.apart_s:
            reason = f"the clock was set: it and the machine's hardware clock disagree by {self.apart_s:.3g} s"
        elif self.impossible_windows:
            reason = (
                f"{self.impossible_windows:.0f} windows have impossible times: not above 0 s, steps longer than their "
                "window, or a longer wait for input than the window"
            )
        elif self.early_s:
            reason = (
                f"the last marker of a window was complete {self.early_s:.3g} s before its step: markers of steps do "
                "not wait for them, so the times of steps and the waits for input are wrong"
            )
        return {"status": "clock_mismatch", "reason": reason} if reason else {}


class WindowChecks:
    """Looks for windows with impossible values, and for markers that were complete before their steps.

    impossible: number of windows that no clock that runs forwards can have timed.
    """

    def __init__(self) -> None:
        self.impossible = 0
        self._num_windows = 0
        self._early_s: list[float] = []

    def add(
        self, elapsed_s: float, data_wait_s: float, steps_s: list[float], latencies_s: list[float], host_s: float
    ) -> None:
        """Add a window.

        steps_s: duration of each step; the last step ends before the window does. latencies_s: from the beginning of
        each step until its marker was complete. host_s: seconds after the last step in which this thread computed or
        waited for a core.
        """
        self._num_windows += 1
        has_negative = elapsed_s <= 0 or min(*steps_s, data_wait_s) < -ROUNDING_S
        self.impossible += has_negative or max(data_wait_s, sum(steps_s)) > elapsed_s + ROUNDING_S
        rest_s = elapsed_s - sum(steps_s) - host_s
        matters = rest_s > EARLY_FRAC * elapsed_s or data_wait_s > INVENTED_FRAC * elapsed_s
        step_s = min(elapsed_s / len(steps_s), statistics.median(latencies_s))
        if matters and rest_s > max(EARLY_FACTOR * step_s, EARLY_MIN_S):
            self._early_s.append(rest_s)

    def compute_early_s(self) -> float:
        """Return by how much markers were early on average; 0 if at most EARLY_WINDOWS of the windows show it.

        Compilation hides it in the first window. If there are several windows, at least two must show it.
        """
        num, others = len(self._early_s), self._num_windows - 1
        is_shown = num > EARLY_WINDOWS * others and num >= min(2, others)
        return sum(self._early_s) / num if is_shown and num else 0.0
