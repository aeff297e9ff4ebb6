"""Estimates how much of a budget a run will need."""

from collections.abc import Callable, Collection

from howmanygpus.paths import RUNS
from howmanygpus.study.adaptive.campaign import Campaign
from howmanygpus.study.durations import BY_OTHERS, RecordedRuns, read_durations
from howmanygpus.study.runs import Run

MIN_TIME_S = 1.0
"""A run is never expected to take less."""


def expect_seconds(campaign: Campaign, tried: Collection[str]) -> Callable[[Run], float | None]:
    """Return a function from a run to its expected seconds, or None if no run like it exists.

    Frameworks can differ by an order of magnitude. Durations of other frameworks therefore count only if a run of the
    framework was tried and left no duration. tried: the paths of the campaign's runs that ended or failed.

    The duration of a user's program depends on its command alone, so the longest existing run of the same variant is
    expected again.
    """
    if campaign.study.is_program:
        durations = read_durations(RUNS / campaign.study.name)
        return lambda run: max((seconds for other, seconds in durations if _is_like(run, other)), default=None)
    recorded = RecordedRuns(campaign.plan)
    known = {(run.framework, run.device) for run in campaign.runs if run.path in tried}

    def expect(run: Run) -> float | None:
        seconds, basis, is_limit = recorded.expect(run)
        is_guess = basis == BY_OTHERS and (run.framework, run.device) not in known
        return None if is_limit or is_guess or seconds is None else max(MIN_TIME_S, seconds)

    return expect


def _is_like(run: Run, other: Run) -> bool:
    return (run.variant, run.precision, run.device) == (other.variant, other.precision, other.device)
