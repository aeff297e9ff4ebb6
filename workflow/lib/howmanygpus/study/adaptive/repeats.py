"""
Decides how many repeats each configuration of a study with `repeats: auto` gets.

The first MIN_REPEATS of all configurations are done first. A configuration is then repeated until half the width of the
interval of its median rate is at most `repeats_precision` of the median, or until its repeats reach `repeats_limit`. A
configuration with a repeat that gave no rate gets no more than the first ones.

The interval lies between two of the rates and leaves out equally many at both ends. It can only become narrower once it
leaves out more of them. The next repeats to do are therefore all those up to that number, in one pass, so that on a
cluster they wait in the queue together.
"""

import math
from dataclasses import dataclass, replace
from statistics import median

from howmanygpus.study.adaptive.configurations import (
    COMPLETED,
    AdaptiveRules,
    Configuration,
    Decision,
    KnownRuns,
    name_repeats,
)

MIN_REPEATS = 3
PRECISION, LIMIT, NO_RATE = "precision", "limit", "no_rate"
"""Why a configuration is not repeated further."""


@dataclass(frozen=True)
class RepeatsEnd:
    """Why a configuration is not repeated further: one of PRECISION, LIMIT and NO_RATE, and the same in words."""

    cause: str
    reason: str


@dataclass(frozen=True)
class RepeatsState:
    """The repeats of a configuration so far.

    wanted: repeats that ended, and those to do next. end: None while there is something to do.
    """

    wanted: tuple[str, ...]
    end: RepeatsEnd | None


def judge_repeats(configuration: Configuration, precision: float, known: KnownRuns) -> RepeatsState:
    """Say which repeats of a configuration are wanted. precision: largest half width of the interval over the median.

    configuration: with as many repeats as the limit allows.
    """
    runs = configuration.runs
    ended = [run for run in runs if run in known.runs]
    wanted = tuple(run for run in runs if run in known.runs or run in runs[:MIN_REPEATS])
    if len(wanted) > len(ended):
        return RepeatsState(wanted, None)
    rates = [rate for run in ended if (rate := known.runs[run].images_per_s) is not None]
    if len(rates) < len(ended):
        status = known.get_failed_status(configuration)
        how = "" if status == COMPLETED else f" ({status.replace('_', ' ')})"
        reason = f"{len(ended) - len(rates)} of {name_repeats(len(ended))} gave no rate{how}"
        return RepeatsState(wanted, RepeatsEnd(NO_RATE, reason))
    half = compute_half_width(rates, known)
    if half <= precision:
        reason = f"the interval of the median is within {precision:g} of it after {name_repeats(len(rates))}"
        return RepeatsState(wanted, RepeatsEnd(PRECISION, reason))
    number = count_next(len(rates), len(runs), known)
    if number is None:
        reached = "not known" if math.isnan(half) else f"{_write_above(half, precision)} of the median"
        reason = (
            f"half the interval is {reached} after {name_repeats(len(rates))}, and no more of up to {len(runs)} "
            f"can bring it to {precision:g}"
        )
        return RepeatsState(wanted, RepeatsEnd(LIMIT, reason))
    missing = [run for run in runs if run not in known.runs][: number - len(rates)]
    return RepeatsState(tuple(run for run in runs if run in known.runs or run in missing), None)


def compute_half_width(rates: list[float], known: KnownRuns) -> float:
    """Return half the width of the interval of the median over the median; nan if there is no interval."""
    low, high = known.find_interval(rates)
    middle = median(rates)
    return (high - low) / 2 / middle if middle else math.inf


def count_next(number: int, limit: int, known: KnownRuns) -> int | None:
    """Return the next number of repeats at which the interval can be narrower; None if the limit is below it."""
    numbers = range(number + 1, limit + 1)
    return next((each for each in numbers if _count_left_out(each, known) > _count_left_out(number, known)), None)


def _count_left_out(number: int, known: KnownRuns) -> float:
    """Return how many of a number of values are below their interval; less than none if they have no interval."""
    low, _ = known.find_interval([float(value) for value in range(number)])
    return -1.0 if math.isnan(low) else low


def _write_above(value: float, limit: float) -> str:
    """Write a value that is above a limit with as many digits as show it."""
    return next(text for digits in range(3, 18) if float(text := f"{value:.{digits}f}") > limit or digits == 17)


def select_repeats(
    configurations: list[Configuration], rules: AdaptiveRules, known: KnownRuns, decision: Decision
) -> list[Configuration]:
    """Return the configurations with the repeats that are wanted, and note why the others are not."""
    if rules.repeats_precision is None:
        return configurations
    selected = []
    for configuration in configurations:
        state = judge_repeats(configuration, rules.repeats_precision, known)
        decision.spare |= set(configuration.runs) - set(state.wanted)
        if state.end:
            decision.repeats_ended |= dict.fromkeys(state.wanted, (state.end.cause, state.end.reason))
        selected.append(replace(configuration, runs=state.wanted))
    return selected


def postpone_spare_repeats(configurations: list[Configuration], decision: Decision) -> None:
    """Note that further repeats are decided later, for configurations whose repeats are done now or later.

    configurations: with as many repeats as the limit allows.
    """
    undecided = {*decision.go, *decision.later}
    for configuration in configurations:
        spare = [run for run in configuration.runs if run in decision.spare]
        wanted = [run for run in configuration.runs if run not in decision.spare]
        if not undecided.isdisjoint(wanted):
            decision.is_judged_later = True
            reason = f"decided later: by the interval of the median of {name_repeats(len(wanted))}"
            decision.later |= dict.fromkeys(spare, reason)
