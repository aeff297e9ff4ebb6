"""Adds up how long the jobs of a call are expected to take."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

UNKNOWN = "none like it was done here"
BY_LIMIT = "time limit, as none like it was done here"


class Expectation(NamedTuple):
    """seconds: expected duration, or the longest possible one if `is_limit`; None if unknown. basis: its source."""

    seconds: float | None
    basis: str
    is_limit: bool = False


class Duration(NamedTuple):
    """seconds: the expected ones. limit_s: sum of the time limits of jobs about which nothing else is known.

    is_complete: whether there is an expectation or a limit for every job.
    """

    seconds: float = 0.0
    limit_s: float = 0.0
    is_complete: bool = True

    def plus(self, other: "Duration") -> "Duration":
        both = self.is_complete and other.is_complete
        return Duration(self.seconds + other.seconds, self.limit_s + other.limit_s, both)


@dataclass
class StageEstimate:
    """The expected durations of a stage's jobs. is_measured: each job has the machine, or its nodes, to itself."""

    is_measured: bool
    seconds: list[float] = field(default_factory=list)
    limit_s: float = 0.0
    device_time: Duration = field(default_factory=Duration)
    bases: Counter = field(default_factory=Counter)

    def add(self, expectation: Expectation, num_devices: int) -> None:
        seconds, basis, is_limit = expectation
        self.bases[basis] += 1
        if seconds is None:
            return
        if is_limit:
            self.limit_s += seconds
        else:
            self.seconds.append(seconds)
        if self.is_measured:
            used = Duration(limit_s=seconds * num_devices) if is_limit else Duration(seconds * num_devices)
            self.device_time = self.device_time.plus(used)

    def elapsed(self, cores: int) -> Duration:
        """Return how long the stage takes: measured jobs go one after the other, others beside each other."""
        seconds = sum(self.seconds) if self.is_measured else max([sum(self.seconds) / cores, *self.seconds])
        return Duration(seconds, self.limit_s, is_complete=not self.bases[UNKNOWN])


def add_up(durations: Iterable[Duration]) -> Duration:
    total = Duration()
    for duration in durations:
        total = total.plus(duration)
    return total
