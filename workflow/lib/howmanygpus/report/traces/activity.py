"""What a trace says ran on each device of a process: operators on the cores of a CPU, kernels and copies on a GPU."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

HOST = "cpu"
"""Name of the device if the devices are cores. Frameworks share one pool of threads among all devices of a process."""


class TraceError(ValueError):
    """A trace that cannot be read, or that does not have what it should."""


@dataclass
class Lane:
    """What one thread of a host or one stream of a GPU did, in seconds of the trace's clock. Calls may be nested."""

    names: list[str] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

    def add(self, name: str, start_s: float, end_s: float) -> None:
        self.names.append(name)
        self.starts.append(start_s)
        self.ends.append(end_s)

    @property
    def intervals(self) -> np.ndarray:
        """Float64 (calls, 2): begin and end of each call."""
        return np.column_stack([self.starts, self.ends]) if self.starts else np.zeros((0, 2))

    def sum_own_seconds(self, low: float, high: float) -> dict[str, float]:
        """Return the seconds between two times that each name took, without the calls that it contains."""
        own: dict[str, float] = defaultdict(float)
        stack: list[tuple[float, str]] = []
        for start, end, name in sorted(
            zip(self.starts, self.ends, self.names, strict=True), key=lambda call: (call[0], -call[1])
        ):
            while stack and stack[-1][0] <= start:
                stack.pop()
            inside = max(0.0, min(end, high) - max(start, low))
            own[name] += inside
            if stack:
                own[stack[-1][1]] -= max(0.0, min(end, stack[-1][0], high) - max(start, low))
            stack.append((end, name))
        return own


@dataclass
class Device:
    """The lanes of one device: work, and on a GPU copies from and to other memory."""

    work: dict[str, Lane] = field(default_factory=lambda: defaultdict(Lane))
    copies: dict[str, Lane] = field(default_factory=lambda: defaultdict(Lane))


@dataclass
class Activity:
    """A trace in the one form. marks: begin of each marked step, in seconds of the trace's clock, by its number."""

    devices: dict[str, Device] = field(default_factory=lambda: defaultdict(Device))
    marks: dict[int, float] = field(default_factory=dict)

    def keep_gpus(self) -> None:
        """Leave out the host if there is any GPU: its operators only enqueue work then."""
        if len(self.devices) > 1:
            self.devices.pop(HOST, None)


def unite(intervals: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the union of intervals between two times as disjoint intervals in order, (intervals, 2)."""
    clipped = np.clip(intervals, low, high)
    clipped = clipped[clipped[:, 1] > clipped[:, 0]]
    if not len(clipped):
        return np.zeros((0, 2))
    clipped = clipped[np.argsort(clipped[:, 0])]
    reach = np.maximum.accumulate(clipped[:, 1])
    begins = np.concatenate([[True], clipped[1:, 0] > reach[:-1]])
    return np.column_stack([clipped[begins, 0], reach[np.concatenate([begins[1:], [True]])]])


def invert(united: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return what is between disjoint intervals in order, and before and after them, from one time to another."""
    edges = np.concatenate([[low], united.ravel(), [high]]).reshape(-1, 2)
    return edges[edges[:, 1] > edges[:, 0]]


def measure(intervals: np.ndarray) -> float:
    """Return the sum of the lengths of disjoint intervals."""
    return float((intervals[:, 1] - intervals[:, 0]).sum())
