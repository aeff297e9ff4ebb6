"""
Whether rates drift while a study is measured: clocks and temperatures change, and so does the load of a machine.

Each rate is divided by the median of its configuration, so that configurations can be pooled, also if they did not run
in random order. Rates that drift are ranked as their starts are. Under the null hypothesis, the repeats of a
configuration can be exchanged among their starts, and with nothing else: the p-value counts the exchanges within
configurations with at least the observed rank correlation (Good 2005, Permutation Tests, section 3; the observed order
counts as one of them, Phipson and Smyth 2010, doi 10.2202/1544-6115.1585). Repeats that ran one after the other cannot
show a slow drift.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from howmanygpus.report.columns import CONFIGURATION

LIMIT = 0.05
"""Largest p-value of a trend."""
NUM_EXCHANGES, SEED = 9999, 0


@dataclass(frozen=True)
class Drift:
    """Trend of the rates of a study.

    correlation: Spearman's, of relative rates and starts, nan if all are equal. p: two-sided. change: relative change
    of the rates from the first to the last start, by the median slope of all pairs of repeats (Theil and Sen). hours:
    from the first to the last start.
    """

    correlation: float
    p: float
    change: float
    hours: float
    num_runs: int

    @property
    def is_trend(self) -> bool:
        return self.p <= LIMIT


def compute_relative_rates(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of configurations with several rates, with `relative_rate` and `hours` since the first start.

    runs: the table of that name.
    """
    known = runs[runs["images_per_s"].notna() & runs["started_at"].notna()].astype({"images_per_s": float})
    rates = known.groupby(CONFIGURATION, sort=False)["images_per_s"]
    known = known.assign(relative_rate=known["images_per_s"] / rates.transform("median"))
    known = known[rates.transform("size") > 1]
    starts = pd.to_datetime(known["started_at"], utc=True, format="ISO8601")
    return known.assign(hours=(starts - starts.min()).dt.total_seconds() / 3600).sort_values("hours", kind="stable")


def measure_drift(rates: pd.DataFrame) -> Drift | None:
    """Test the rates of a study for a trend; None without repeats. rates: as compute_relative_rates returns them."""
    if rates.empty:
        return None
    hours = rates["hours"].to_numpy()
    by_time, by_rate = (_center_ranks(rates[name]) for name in ("hours", "relative_rate"))
    scale = np.sqrt((by_time**2).sum() * (by_rate**2).sum())
    slopes, generator = [], np.random.default_rng(SEED)
    exchanged = np.empty((NUM_EXCHANGES, len(rates)))
    logs = np.log(rates["relative_rate"].to_numpy())
    for positions in rates.groupby(CONFIGURATION, sort=False).indices.values():
        exchanged[:, positions] = generator.permuted(np.tile(by_rate[positions], (NUM_EXCHANGES, 1)), axis=1)
        pairs = [(one, other) for one, other in combinations(positions, 2) if hours[one] != hours[other]]
        slopes += [(logs[one] - logs[other]) / (hours[one] - hours[other]) for one, other in pairs]
    span, num = float(hours.max()), len(rates)
    if not scale or not slopes:
        return Drift(np.nan, 1.0, 0.0, span, num)
    observed = by_time @ by_rate
    # Sums of the same numbers in another order differ by rounding.
    as_far = int((np.abs(exchanged @ by_time) >= abs(observed) - 1e-9 * scale).sum())
    p = (as_far + 1) / (NUM_EXCHANGES + 1)
    return Drift(float(observed / scale), p, float(np.expm1(np.median(slopes) * span)), span, num)


def choose_unit(hours: float) -> tuple[str, int]:
    """Return the unit in which a study of this length is shown, and the number of units per hour."""
    return ("hours", 1) if hours >= 1 else ("minutes", 60)


def describe_drift(drift: Drift) -> str:
    """Write the result of the test, such as `rank correlation -0.71 of 24 runs, p = 0.003`."""
    p = "p < 0.001" if drift.p < 0.001 else f"p = {drift.p:.2g}"
    return f"rank correlation {drift.correlation:.2f} of {drift.num_runs} runs, {p}"


def _center_ranks(values: pd.Series) -> np.ndarray:
    ranks = values.rank().to_numpy()
    return ranks - ranks.mean()
