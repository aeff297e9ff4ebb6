"""The basis of a decision: the configurations of a grid, the rules of its study, and the known results of runs."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

COMPLETED = "completed"
OUT_OF_MEMORY = "out_of_memory"


@dataclass(frozen=True)
class AdaptiveRules:
    """The keys of a study that make its grid adaptive. is_strong: whether a curve keeps the global batch.

    repeats_precision: None if the number of repeats is fixed.
    """

    stop_below_efficiency: float | None = None
    budget_device_h: float | None = None
    train_best: int | None = None
    repeats_precision: float | None = None
    is_strong: bool = False

    @property
    def is_sequential(self) -> bool:
        """Whether a device count waits for the one below it."""
        return self.stop_below_efficiency is not None or self.budget_device_h is not None


@dataclass(frozen=True)
class Configuration:
    """One configuration. curve: its values except the device count. runs: the paths of its repeats.

    kind: settings that it shares with configurations that take about as long, such as the framework. is_real: whether
    it trains on real images, so that it can reach a target.
    """

    curve: tuple
    num_gpus: int
    runs: tuple[str, ...]
    kind: tuple = ()
    is_real: bool = True


@dataclass(frozen=True)
class RunResult:
    """How a run ended. images_per_s: None without a rate. has_outcome: false if it only failed in this call."""

    status: str
    images_per_s: float | None = None
    has_outcome: bool = True


@dataclass(frozen=True)
class KnownRuns:
    """All measurements so far.

    runs: by path, runs that ended or that failed in this call. used_device_h: device-hours of all jobs of the study,
    including failed ones. expect: returns the device-hours that a run is expected to need; None if no similar run
    exists. find_interval: returns the confidence interval of the median of some rates; nan for too few.
    """

    runs: dict[str, RunResult] = field(default_factory=dict)
    used_device_h: float = 0.0
    expect: Callable[[str], float | None] = lambda run: None
    find_interval: Callable[[Sequence[float]], tuple[float, float]] = lambda rates: (math.nan, math.nan)

    def list_missing(self, configuration: Configuration) -> list[str]:
        return [run for run in configuration.runs if run not in self.runs]

    def list_done(self, configuration: Configuration) -> list[str]:
        return [run for run in configuration.runs if run in self.runs and self.runs[run].has_outcome]

    def compute_median_rate(self, configuration: Configuration) -> float | None:
        """Return the median rate of the repeats that have a rate, as the table of scaling does."""
        known = (self.runs[run].images_per_s for run in configuration.runs if run in self.runs)
        rates = [rate for rate in known if rate is not None]
        return median(rates) if rates else None

    def get_failed_status(self, configuration: Configuration) -> str:
        """Return how the first repeat that did not complete ended."""
        statuses = [self.runs[run].status for run in configuration.runs if run in self.runs]
        return next((status for status in statuses if status != COMPLETED), COMPLETED)


@dataclass
class Decision:
    """The decision on each run.

    go: runs to do now. done: runs that ended and belong to the grid. later: runs that a later pass decides, and
    not_run: runs that are not done, each with the reason. allowed_device_h: most device-hours of each run to do; empty
    without a budget. spare: repeats that nothing asks for now, with `repeats: auto`; those that a later pass can ask
    for are among `later` too. repeats_ended: why a configuration is not repeated further, as (cause, reason) of each of
    its repeats, see study.adaptive.repeats. is_judged_later: whether repeats that are done now tell if more are needed.
    """

    go: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    later: dict[str, str] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    allowed_device_h: dict[str, float] = field(default_factory=dict)
    spare: set[str] = field(default_factory=set)
    repeats_ended: dict[str, tuple[str, str]] = field(default_factory=dict)
    is_judged_later: bool = False

    @property
    def is_final(self) -> bool:
        """Whether later passes have nothing to decide."""
        return not (self.later or self.is_judged_later)

    def asks_for(self, run: str) -> bool:
        return run in self._asked

    @cached_property
    def _asked(self) -> set[str]:
        return {*self.go, *self.done}


def list_curves(cells: Iterable[Configuration]) -> list[list[Configuration]]:
    """Return the configurations by curve, in the order of device counts."""
    curves: dict[tuple, list[Configuration]] = {}
    for configuration in cells:
        curves.setdefault(configuration.curve, []).append(configuration)
    return [sorted(curve, key=lambda configuration: configuration.num_gpus) for curve in curves.values()]


def name_devices(num_gpus: int) -> str:
    return f"{num_gpus} device{'s' if num_gpus > 1 else ''}"


def name_repeats(number: int) -> str:
    return f"{number} repeat{'s' if number > 1 else ''}"
