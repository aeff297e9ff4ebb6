"""Estimates how much of a budget a run will need."""

from collections.abc import Callable
from pathlib import Path

from howmanygpus.plan.adaptive.campaign import Campaign
from howmanygpus.plan.dry_run.recorded_runs import RUNS, RecordedRuns, read_durations
from howmanygpus.plan.runs import Run

LEAST_S = 1.0
"""A run is never expected to take less."""


def expect_seconds(campaign: Campaign, folder: Path = RUNS) -> Callable[[Run], float | None]:
    """Return a function from a run to its expected seconds, or None if no run like it exists.

    The duration of a user's program depends on its command alone, so the longest existing run of the same variant is
    expected again. folder: where the runs are.
    """
    if campaign.study.is_program:
        durations = read_durations(folder / campaign.study.name)
        return lambda run: max((seconds for other, seconds in durations if _is_like(run, other)), default=None)
    recorded = RecordedRuns(campaign.plan, folder)

    def expect(run: Run) -> float | None:
        seconds, _, is_limit = recorded.expect(run)
        return None if is_limit or seconds is None else max(LEAST_S, seconds)

    return expect


def _is_like(run: Run, other: Run) -> bool:
    return (run.variant, run.precision, run.device) == (other.variant, other.precision, other.device)
