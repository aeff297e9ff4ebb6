"""
When the devices of a run ran nothing, from a trace and from what the training loop saw of the same steps.

The window begins when the last step of the lead is complete, and ends with the last step. A device is busy while at
least one of its kernels runs, or with CPU devices while an operator runs on any thread of the pool. It copies while
only copies run. In the rest of the window it runs nothing.
"""

from dataclasses import dataclass

import numpy as np

from howmanygpus.report.traces.activity import Activity, Device, TraceError, invert, measure, unite

LATE_S, LATE_FRAC = 1e-3, 0.1
"""How late the loop sees the end of a step at most: seconds, and parts of a step. The loop's thread has to wake up."""
SLIVER_FRAC, SLIVERS_FRAC = 0.05, 0.02
"""Work that does not end a gap: as part of the gap so far, and all of it as part of a step's work.

Frameworks begin a step with a few short operators, such as a read of the step's number, and then wait for its batch.
"""
BINS_PER_STEP = 20
NUM_OPERATORS = 3


@dataclass(frozen=True)
class DeviceGaps:
    """One device in the window. work, idle: disjoint intervals in seconds from the window's begin.

    gaps_s: seconds without work around the end of each step, see measure_gap.
    """

    name: str
    work: np.ndarray
    copies: np.ndarray
    gaps_s: list[float]


@dataclass(frozen=True)
class TracedWindow:
    """The steps that were looked at, in seconds from the window's begin.

    ends_s: end of each step. waits: disjoint intervals in which the devices waited for input. operators: the names that
    took most of the devices' time, with their parts of it.
    """

    window_s: float
    ends_s: np.ndarray
    waits: np.ndarray
    devices: list[DeviceGaps]
    operators: list[tuple[str, float]]

    @property
    def busy_frac(self) -> float:
        return float(np.mean([measure(device.work) for device in self.devices])) / self.window_s

    @property
    def copy_frac(self) -> float:
        """Part of the window in which only copies ran."""
        either = [measure(unite(np.vstack([each.work, each.copies]), 0.0, self.window_s)) for each in self.devices]
        return float(np.mean(either)) / self.window_s - self.busy_frac

    @property
    def input_wait_frac(self) -> float:
        return measure(self.waits) / self.window_s

    @property
    def gaps_s(self) -> list[float]:
        """The gaps of all devices."""
        return [gap for device in self.devices for gap in device.gaps_s]


def find_gaps(activity: Activity, seen: dict) -> TracedWindow:
    """Set a trace beside what the loop saw. seen: content of steps.json, see measure.loop.tracing.

    Raises TraceError if the trace lacks the marks of the steps, or work of a device.
    """
    steps, lead = seen["steps"], seen["lead_steps"]
    shifts = [activity.marks[i] - step["began_s"] for i, step in enumerate(steps, start=1) if i in activity.marks]
    if not shifts:
        raise TraceError("the trace has no marks of the steps")
    finished = np.array([step["finished_s"] for step in steps])
    # A trace's clock may count from 1970, where a float64 resolves 0.2 us: what the loop saw stays on the loop's clock.
    opened, shift = finished[lead - 1], np.median(shifts)
    begin, ends_s = opened + shift, finished[lead:] - opened
    window_s = float(ends_s[-1])
    before = begin - min(activity.marks.values())
    late = min(LATE_S, LATE_FRAC * float(np.median(np.diff(finished[lead - 1 :]))))
    arrived = [None if step["ready_s"] is None else step["ready_s"] - opened for step in steps]
    waits = [(end, at) for end, at in zip((0.0, *ends_s[:-1]), arrived[lead:], strict=True) if at is not None]
    devices = [
        look_at_device(name, device, begin, before, np.array([0.0, *ends_s[:-1]]), window_s, late)
        for name, device in sorted(activity.devices.items())
    ]
    if not any(len(device.work) for device in devices):
        raise TraceError("the trace has no operator of a device in these steps")
    operators = rank_operators(activity, begin, begin + window_s)
    return TracedWindow(window_s, ends_s, unite(np.array(waits).reshape(-1, 2), 0.0, window_s), devices, operators)


def look_at_device(
    name: str, device: Device, begin: float, before: float, ends_s: np.ndarray, window_s: float, late: float
) -> DeviceGaps:
    """begin: of the window on the trace's clock; before: seconds of the trace ahead of it; ends_s: the steps' ends."""
    joined = {
        kind: np.vstack([np.zeros((0, 2)), *(lane.intervals for lane in lanes.values())]) - begin
        for kind, lanes in (("work", device.work), ("copies", device.copies))
    }
    idle = invert(unite(joined["work"], -before, window_s), -before, window_s)
    united = {kind: unite(intervals, 0.0, window_s) for kind, intervals in joined.items()}
    slivers_s = SLIVERS_FRAC * measure(united["work"]) / len(ends_s)
    gaps = [measure_gap(idle, end - late, end + late, slivers_s) for end in ends_s]
    return DeviceGaps(name, united["work"], united["copies"], gaps)


def measure_gap(idle: np.ndarray, low: float, high: float, slivers_s: float) -> float:
    """Return the seconds without work of the gap around the end of a step, which is between two times.

    The gap begins as the longest stretch without work that touches these times, and grows over slivers of work, all
    of which are no longer than slivers_s. idle: all stretches without work, in order.
    """
    lengths = idle[:, 1] - idle[:, 0]
    touching = np.flatnonzero((idle[:, 0] <= high) & (idle[:, 1] >= low))
    if not len(touching):
        return 0.0
    first = last = int(touching[lengths[touching].argmax()])
    gap, grows = float(lengths[first]), True
    while grows:
        grows = False
        for near, far in ((last, last + 1), (first, first - 1)):
            if not 0 <= far < len(idle):
                continue
            sliver = float(idle[max(near, far), 0] - idle[min(near, far), 1])
            if sliver <= min(SLIVER_FRAC * gap, slivers_s):
                gap, slivers_s, grows = gap + float(lengths[far]), slivers_s - sliver, True
                first, last = min(first, far), max(last, far)
    return gap


def rank_operators(activity: Activity, low: float, high: float) -> list[tuple[str, float]]:
    """Return the operators with most time of their own between two times, and their parts of that of all operators."""
    seconds: dict[str, float] = {}
    for device in activity.devices.values():
        for lane in device.work.values():
            for name, own in lane.sum_own_seconds(low, high).items():
                seconds[name] = seconds.get(name, 0.0) + own
    total = sum(seconds.values())
    largest = sorted(seconds.items(), key=lambda item: -item[1])[:NUM_OPERATORS]
    return [(name, own / total) for name, own in largest if own > 0]


def split_into_bins(intervals: np.ndarray, window_s: float, num_bins: int) -> np.ndarray:
    """Return the part of each of `num_bins` equal parts of the window that disjoint intervals cover."""
    edges, covered = intervals.ravel(), np.repeat(np.cumsum(intervals[:, 1] - intervals[:, 0]), 2)
    if len(edges) == 0:
        return np.zeros(num_bins)
    covered[::2] -= intervals[:, 1] - intervals[:, 0]
    at = np.interp(np.linspace(0.0, window_s, num_bins + 1), edges, covered)
    return np.diff(at) * num_bins / window_s
