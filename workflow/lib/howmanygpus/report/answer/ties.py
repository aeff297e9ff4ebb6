"""The best configurations by a criterion: all that their repeats do not tell from the best one."""

import numpy as np
import pandas as pd

from howmanygpus.report.answer.names import CONFIGURATION, name_configuration, name_spread
from howmanygpus.report.intervals import ratio_level
from howmanygpus.report.ties import are_told_apart, collect_samples, group_ties, measure_scatter

MAX_TIED_NAMED = 4


class Repeats:
    """The values of one column in the repeats of all configurations of a study."""

    def __init__(self, runs: pd.DataFrame, column: str):
        """runs: one row per repeat, with the columns that name its configuration."""
        self.samples = collect_samples(runs, CONFIGURATION, column)
        self.scatter = measure_scatter(self.samples.values())

    @property
    def tell_nothing(self) -> bool:
        """Whether no configuration has two values, so that nothing says whether chance decides."""
        return bool(np.isnan(self.scatter))

    def list_best(self, candidates: pd.DataFrame, better: str) -> pd.DataFrame:
        """Return the candidates that cannot be told from the best, those on the fewest devices first.

        candidates: one row per configuration, the best first. If the repeats tell nothing, it is the first alone.
        """
        if self.tell_nothing:
            return candidates.iloc[:1]
        samples = [self._get(row) for _, row in candidates.iterrows()]
        groups = group_ties(samples, self.scatter, better)
        return candidates[[group == 1 for group in groups]].sort_values("num_gpus", kind="stable")

    def are_told_apart(self, one: pd.Series, other: pd.Series) -> bool:
        """Return whether the repeats of two rows' configurations tell them apart."""
        return are_told_apart(self._get(one), self._get(other), self.scatter)

    def describe_interval(self, one: pd.Series, other: pd.Series, low: float, high: float) -> str:
        """Write the interval of a ratio of two rows' medians with its level, behind a semicolon; empty if unknown."""
        if np.isnan(low):
            return ""
        level = ratio_level(len(self._get(one)), len(self._get(other)))
        return f"; {100 * level:.0f} % interval {low:.2f} to {high:.2f}"

    def _get(self, row: pd.Series) -> np.ndarray:
        return self.samples[tuple(row[CONFIGURATION])]


def describe_best(best: pd.DataFrame, median: str, unit: str, digits: str) -> str:
    """Name the only best configuration, or all that tie, with the one that the answer goes on with.

    best: as list_best returns it. median, unit, digits: as for name_spread.
    """
    named = [
        f"{name_configuration(row)}: {name_spread(row, median, unit, digits)}"
        for _, row in best.head(MAX_TIED_NAMED).iterrows()
    ]
    return describe_tie(best, named)


def describe_tie(best: pd.DataFrame, named: list[str]) -> str:
    """Name the only best configuration, or all that tie. named: the first ones with their numbers."""
    if len(best) == 1:
        return named[0]
    more = [f"and {len(best) - len(named)} more"] if len(best) > len(named) else []
    first = "is on the fewest devices" if best["num_gpus"].nunique() > 1 else "has the best median"
    return (
        f"a tie of {len(best)} configurations that the repeats do not tell apart: {'; '.join(named + more)}. Of these, "
        f"{name_configuration(best.iloc[0])} {first}"
    )
