"""
What is known of each configuration of a study, as far as a recommendation needs it.

Less time is better. A duration is the seconds of training until the target is reached or, for a study without
a target, the seconds that all devices need for one image. Wall time counts start-up and evaluation too,
and without a target it is that of a whole run. One of these two clocks decides, see use_clock. Repeats that other work
disturbed are left out where others exist; a configuration that has no others is not trusted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log2
from statistics import fmean, median
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.report.answer.names import OF_STUDY
from howmanygpus.report.columns import FEWEST_NODES, IDENTITY, SERIES, list_columns
from howmanygpus.report.equivalence import ROUNDING
from howmanygpus.report.intervals import median_interval, ratio_interval
from howmanygpus.report.metrics import load_metric
from howmanygpus.report.outcomes import UNDECIDED, has_failed
from howmanygpus.report.rows import choose_inputs, name_count
from howmanygpus.report.thresholds import choose_hardest_threshold, summarize_time_to_accuracy
from howmanygpus.report.ties import are_told_apart, measure_scatter

TRAINING, WALL = "duration_s", "wall_s"
"""The clocks, by the fact of a configuration that has their seconds."""


@dataclass(frozen=True)
class Goal:
    """What configurations are compared by. threshold: of the metric, to be reached; None if the rate decides."""

    metric: str | None = None
    better: str = "higher"
    threshold: float | None = None

    @property
    def is_target(self) -> bool:
        return self.threshold is not None


@dataclass(frozen=True)
class Value:
    """A median over repeats with its interval, which one repeat does not have."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Value | None":
        """Summarize the values that are known; None if there are none."""
        known = [value for value in values if value is not None and np.isfinite(value)]
        return cls(median(known), *median_interval(known)) if known else None

    def as_fact(self) -> dict[str, float | None]:
        return {name: value if np.isfinite(value) else None for name, value in vars(self).items()}


def summarize(values: Iterable[float]) -> dict[str, float | None] | None:
    """Return the median of the values that are known with its interval, as a fact; None if there are none."""
    value = Value.of(values)
    return value.as_fact() if value else None


@dataclass(frozen=True)
class Candidate:
    """A configuration that completed without a failed repeat, and reached the goal in all of them.

    names: the columns OF_STUDY, global_batch_size, num_planned (repeats), and series, which is the framework with
    the variant, input and precision if they vary. durations: seconds by repeat, see above. costs: money by repeat until
    the goal. rates: images/s. walls: seconds of wall time until the goal. qualities: at the end of training; areas: ROC
    AUC there beside another metric. models: of the devices. num_lost: repeats whose last evaluation misses the goal
    again. num_billed: devices that are billed, which are all of a node where nodes are. images_of_run: of a whole run;
    nan if it is not known. clock: the one that decides. scatter: usual factor between repeats by it, see report.ties.
    images, missed: images until the goal, and training seconds until the last evaluation that missed it, by repeat;
    empty without a target. starts: seconds of start-up and first step, by repeat; nan if they are not known.
    """

    names: dict[str, Any]
    durations: list[float]
    rates: list[float]
    walls: list[float]
    costs: list[float]
    currency: str | None
    qualities: list[float]
    areas: list[float]
    models: frozenset[str]
    num_disturbed: int
    is_trusted: bool
    num_lost: int = 0
    run_dirs: list[str] = field(default_factory=list)
    num_billed: float = np.nan
    images_of_run: float = np.nan
    clock: str = TRAINING
    scatter: float = np.nan
    images: list[float] = field(default_factory=list)
    missed: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    memories: list[float] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)

    @property
    def num_gpus(self) -> int:
        return int(self.names["num_gpus"])

    @property
    def framework(self) -> str:
        return str(self.names["framework"])

    @property
    def series(self) -> list[Any]:
        """Values of the columns of its series."""
        return [self.names[name] for name in list_columns(SERIES)]

    @cached_property
    def duration(self) -> float:
        return median(self.durations)

    @property
    def times(self) -> list[float]:
        """Seconds by repeat on the clock that decides."""
        return self.walls if self.clock == WALL else self.durations

    @cached_property
    def time(self) -> float:
        return median(self.times)

    @property
    def quality(self) -> float | None:
        """Mean quality at the end; None if it is not known."""
        return fmean(self.qualities) if self.qualities else None

    @property
    def num_repeats(self) -> int:
        return len(self.durations)

    @property
    def price(self) -> float:
        """Money if it is known, else device-seconds: of the time that the clock counts."""
        return median(self._prices)

    @property
    def cost(self) -> float:
        """Money until the goal, or for a whole run. It must be known."""
        return median(self.costs)

    @property
    def _prices(self) -> list[float]:
        if not self.costs:
            return [time * self.num_billed for time in self.times]
        if self.clock == WALL or len(self.walls) != len(self.times):
            return self.costs
        return [cost * time / wall for cost, time, wall in zip(self.costs, self.times, self.walls, strict=True)]

    @property
    def is_rated(self) -> bool:
        """Whether its times are of one image, as without a target."""
        return not self.images and self.clock == TRAINING

    @property
    def costs_per_million(self) -> list[float]:
        """Money for a million images of training, by repeat; empty unless times are of one image and costs are known.

        Those of a whole run would compare runs of different lengths, and their start-up.
        """
        is_known = self.is_rated and self.costs and len(self.walls) == len(self.times)
        return [1e6 * price for price in self._prices] if is_known else []

    @property
    def evaluated(self) -> list[float]:
        """Seconds of wall time until the goal that are neither start-up nor training, which evaluation takes."""
        if not self.images or len(self.walls) != len(self.durations):
            return []
        parts = zip(self.walls, self.starts, self.durations, strict=True)
        return [max(0.0, wall - start - duration) for wall, start, duration in parts]

    def gain_over(self, other: "Candidate") -> Value:
        """How many times faster this configuration is than another.

        The interval reaches to what it is if evaluations between those that were made had shown equal images.
        """
        low, _ = ratio_interval(other.bound_below(self), self.times)
        _, high = ratio_interval(other.times, self.bound_below(other))
        gain = other.time / self.time
        if self.is_bounded_by_evaluations(other):
            bounds = median(other.bound_below(self)) / self.time, other.time / median(self.bound_below(other))
            low, high = np.fmin(low, bounds[0]), np.fmax(high, bounds[1])
        return Value(gain, float(low), float(high))

    def need_over(self, other: "Candidate", worth_doubling: float) -> float:
        """How many times faster than another configuration its number of devices must make this one.

        On as many devices, those that are billed count, of which more nodes may have more.
        """
        is_of_as_many = self.num_gpus == other.num_gpus
        grown = self.num_billed / other.num_billed if is_of_as_many else self.num_gpus / other.num_gpus
        return worth_doubling ** log2(grown)

    def gains_enough_over(self, other: "Candidate", worth_doubling: float) -> bool:
        """Whether the median gain is what the number of devices must bring."""
        return self.gain_over(other).median * (1 + ROUNDING) >= self.need_over(other, worth_doubling)

    def bound_below(self, other: "Candidate") -> list[float]:
        """Return the times of repeats as if the goal was met right after the evaluation before.

        Only repeats that needed more images than the other configuration are shortened: that they do is what the
        evaluations are too far apart to show. Those that needed as many have the ratio of the rates. The wall time is
        also shorter by the evaluations between, of which each takes as long.
        """
        if not self.missed or not other.images:
            return self.times
        needs_more = [own > median(other.images) for own in self.images]
        evaluated = np.nan_to_num(self.evaluated).tolist() if self.clock == WALL else [0.0] * len(self.times)
        bounds = zip(self.times, self.durations, self.missed, needs_more, evaluated, strict=True)
        # A goal that the first evaluation met is no shorter than nothing, of which no ratio can be computed.
        return [
            time - (1 - missed / duration) * (duration + evaluation) if is_more and missed > 0 else time
            for time, duration, missed, is_more, evaluation in bounds
        ]

    def bound_prices_below(self, other: "Candidate") -> list[float]:
        """Return the prices of repeats for the times of bound_below."""
        if not self.is_bounded_by_evaluations(other):
            return self._prices
        bounds = zip(self._prices, self.bound_below(other), self.times, strict=True)
        return [price * bound / time for price, bound, time in bounds]

    def is_bounded_by_evaluations(self, other: "Candidate") -> bool:
        """Whether the spacing of evaluations widens the interval of the ratio of the two."""
        return self.bound_below(other) != self.times or other.bound_below(self) != other.times

    def is_hidden_by_evaluations(self, other: "Candidate") -> bool:
        """Whether the two differ by no more than evaluations that are far apart show."""
        slow, fast = (self, other) if self.time > other.time else (other, self)
        return slow.is_bounded_by_evaluations(fast) and median(slow.bound_below(fast)) <= fast.time * (1 + ROUNDING)

    def is_tied_with(self, other: "Candidate") -> bool:
        """Whether the repeats of the study, or evaluations that are far apart, show that they may be equally fast.

        A study of single repeats does not show how much these scatter, and has no ties.
        """
        slow, fast = (self, other) if self.time > other.time else (other, self)
        is_told = are_told_apart(slow.bound_below(fast), fast.times, self.scatter)
        return self.is_hidden_by_evaluations(other) or (self.has_scatter and not is_told)

    @property
    def has_scatter(self) -> bool:
        """Whether any configuration of the study has several repeats."""
        return bool(np.isfinite(self.scatter))

    def is_told_faster_than(self, other: "Candidate") -> bool:
        """Whether this configuration is faster; if both have several repeats, these must tell it."""
        return self.time < other.time and not self.is_tied_by_repeats_with(other)

    def is_tied_by_repeats_with(self, other: "Candidate") -> bool:
        """Whether both have several repeats, which cannot tell which of the two is faster, or evaluations hide it."""
        is_tied = min(self.num_repeats, other.num_repeats) > 1 and self.is_tied_with(other)
        return is_tied or self.is_hidden_by_evaluations(other)

    def is_cheaper_than(self, other: "Candidate") -> bool:
        """Whether this configuration costs less; repeats, if both have several, and evaluations must tell it."""
        others = other.bound_prices_below(self)
        is_told = min(self.num_repeats, other.num_repeats) == 1 or are_told_apart(self._prices, others, self.scatter)
        return self.price * (1 + ROUNDING) < median(others) and is_told

    def __str__(self) -> str:
        return name_configuration(self.names)


def name_configuration(names: dict[str, Any]) -> str:
    """Write the names of a configuration, such as `4 x a100 pytorch_ddp bf16 batch 64`. names: see Candidate."""
    is_named = names["num_nodes"] > 1 or names["placement"] != FEWEST_NODES
    nodes = f" on {name_count(names['num_nodes'], 'node')}" if is_named else ""
    where = f"{names['num_gpus']} x {names['device']}{nodes}"
    return f"{where} {names['series']} batch {names['per_device_batch_size']}"


def name_series(names: dict[str, Any], runs: pd.DataFrame) -> str:
    """Return the framework, with the variant, input and precision if they vary among runs, or another variant."""
    varying = [name for name in list_columns(SERIES, but=["framework", "device"]) if runs[name].nunique() > 1]
    shown = dict.fromkeys(["variant"] * (names["variant"] != "base") + varying)
    return " ".join(str(names[name]) for name in ("framework", *shown))


def walk(by_count: dict[int, Candidate], worth_doubling: float) -> Candidate:
    """Return the configuration beyond which no larger number of devices gains what its doublings must bring.

    by_count: one of each number of devices, or of nodes, by rising number. Each number is compared with the one chosen
    so far, because the first exchange between devices may cost more than all later ones. If repeats do not tell a gain
    from none, there is none. One repeat tells nothing, so that medians decide.
    """
    chosen, *others = by_count.values()
    for candidate in others:
        if candidate.gains_enough_over(chosen, worth_doubling) and not candidate.is_tied_by_repeats_with(chosen):
            chosen = candidate
    return chosen


def choose_goal(runs: pd.DataFrame, times: pd.DataFrame) -> Goal:
    """Return the hardest threshold that some configuration reached in all its repeats, or the rate without one.

    runs: comparable ones; times: the table time_to_accuracy. A repeat that diverged after it reached a threshold did
    not reach it, because its configuration cannot be recommended.
    """
    metrics = runs["quality_metric"].dropna()
    if metrics.empty and times.empty:
        return Goal()
    metric = times["metric"].iloc[0] if len(times) else metrics.iloc[0]
    completed = times.assign(reached=times["reached"].eq(True) & times["status"].eq("completed"))
    summary = summarize_time_to_accuracy(completed)
    sure = summary[summary["num_reached"] == summary["num_repeats"]]
    return Goal(metric, load_metric(metric).BETTER, choose_hardest_threshold(sure) if len(sure) else None)


def list_candidates(runs: pd.DataFrame, times: pd.DataFrame, goal: Goal) -> list[Candidate]:
    """Return the configurations that can be recommended, on the images that count.

    runs: with the column `repeats_planned`, see answer.facts.
    Costs are known of all of them in one currency, or of none: money and device-hours cannot be compared.
    """
    counted = choose_inputs(runs)
    reached = times[times["threshold"] == goal.threshold] if goal.is_target else times.iloc[:0]
    by_run = dict(zip(reached[IDENTITY].itertuples(index=False, name=None), range(len(reached)), strict=True))
    found = []
    for key, repeats in counted.groupby(OF_STUDY, sort=False, dropna=False):
        done = repeats[repeats["status"] == "completed"]
        tried = repeats[~repeats["status"].isin(UNDECIDED)]
        if done.empty or has_failed(tried["status"]).any():
            continue
        names = dict(zip(OF_STUDY, key, strict=True))
        names["series"] = name_series(names, counted)
        names["num_planned"] = int(repeats["repeats_planned"].iloc[0])
        candidate = _make_candidate(names, done, reached, by_run, goal)
        if candidate is not None:
            found.append(candidate)
    if len({candidate.currency for candidate in found}) > 1:
        found = [replace(candidate, costs=[], currency=None) for candidate in found]
    if any(np.isnan(candidate.num_billed) for candidate in found):
        found = [replace(candidate, num_billed=candidate.num_gpus) for candidate in found]
    return use_clock(found, TRAINING)


def use_clock(candidates: list[Candidate], clock: str) -> list[Candidate]:
    """Return configurations whose times, ties and prices are those of a clock."""
    timed = [replace(candidate, clock=clock) for candidate in candidates]
    scatter = measure_scatter(candidate.times for candidate in timed)
    return [replace(candidate, scatter=scatter) for candidate in timed]


def _make_candidate(
    names: dict[str, Any], done: pd.DataFrame, reached: pd.DataFrame, by_run: dict[tuple, int], goal: Goal
) -> Candidate | None:
    """reached: the moments of all runs. by_run: the number of each one's row."""
    disturbed = done["disturbed"].eq(True)
    quiet = done[~disturbed] if not disturbed.all() else done
    names |= {"global_batch_size": int(done["global_batch_size"].iloc[0])}
    rates = quiet["images_per_s"].dropna().astype(float).tolist()
    num_lost = 0
    images, missed, starts = [], [], []
    if goal.is_target:
        moments, quiet_moments = (
            reached.iloc[[by_run[key] for key in runs[IDENTITY].itertuples(index=False, name=None) if key in by_run]]
            for runs in (done, quiet)
        )
        if moments.empty or not moments["reached"].astype(bool).all():
            return None
        moments = quiet_moments
        durations = moments["time_to_accuracy_s"].astype(float).tolist()
        walls = moments["wall_time_s"].astype(float).tolist()
        images, missed = (moments[name].astype(float).tolist() for name in ("images_seen", "missed_time_s"))
        starts = (moments["time_with_start_s"] - moments["time_to_accuracy_s"]).astype(float).tolist()
        costs, currencies = moments["cost_to_accuracy"], moments["currency"]
        num_lost = int(moments["held"].eq(False).sum())
    else:
        durations = [1 / rate for rate in rates if rate > 0]
        walls = quiet["wall_time_s"].dropna().astype(float).tolist()
        costs, currencies = quiet["cost"], quiet["currency"]
    # A target that was reached within the first step takes no training time.
    if not durations or min(durations) <= 0:
        return None
    is_priced = costs.notna().all() and currencies.nunique() == 1
    return Candidate(
        names=names,
        durations=durations,
        rates=rates,
        walls=walls,
        costs=costs.astype(float).tolist() if is_priced else [],
        currency=currencies.iloc[0] if is_priced else None,
        qualities=quiet["quality_last"].dropna().astype(float).tolist(),
        areas=quiet["roc_auc_last"].dropna().astype(float).tolist() if goal.metric != "roc_auc" else [],
        models=frozenset(quiet["device_model"].dropna()),
        num_disturbed=int(disturbed.sum()),
        is_trusted=not disturbed.all(),
        num_lost=num_lost,
        num_billed=names["num_gpus"] * (quiet["billed_device_hours"] / quiet["device_hours"]).astype(float).median(),
        images_of_run=quiet["images_seen"].astype(float).median(),
        run_dirs=done["run_dir"].dropna().tolist(),
        images=images,
        missed=missed,
        losses=quiet["loss_last"].dropna().astype(float).tolist(),
        memories=quiet["memory_gib_highest"].dropna().astype(float).tolist(),
        starts=starts,
    )
