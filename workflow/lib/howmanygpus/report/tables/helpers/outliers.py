"""
Repeats whose rate is far from that of the other repeats of their configuration. They are flagged and never dropped.

The distance is the logarithm of the rate over the configuration's median rate. A repeat is an outlier if it exceeds
3.5 standard deviations, and 3 %. From five repeats on, the standard deviation is estimated from the repeats themselves
by the median absolute deviation (the identifier of Hampel; the limit is that of Iglewicz and Hoaglin 1993, How to
Detect and Handle Outliers). Three or four repeats cannot give it, because one outlier moves it; it is then the usual
one of the study's other configurations on the same kind of device, from the median difference of pairs of their
repeats. Of two repeats nobody knows which one is off.
"""

from itertools import combinations

import numpy as np
import pandas as pd

from howmanygpus.report.columns import CONFIGURATION

LIMIT = 3.5
SMALLEST = 0.03
"""Relative difference up to which no repeat is an outlier: repeats on an idle machine differ by 1 to 3 %."""
OF_ITSELF, OF_OTHERS = 5, 3
"""Fewest repeats that are judged by their own scatter, and by that of other configurations."""
FEWEST_PAIRS = 10
"""Fewest pairs of repeats whose median difference is the usual one, as many as five repeats have."""
DEVIATION_TO_SIGMA = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
DIFFERENCE_TO_SIGMA = 1.0484
"""Standard deviation of a normal distribution over the median absolute difference of two values."""
SMALL_SAMPLES = {5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
"""Correction of the median absolute deviation of few values (Croux and Rousseeuw 1992, COMPSTAT, p. 411)."""


def flag_outliers(runs: pd.DataFrame) -> pd.Series:
    """Return whether each run is an outlier; nan for a run without a rate, or that nothing can be compared with.

    runs: the columns of a configuration, and images_per_s.
    """
    rates = runs["images_per_s"].astype(float)
    logs = np.log(rates[rates > 0])
    configurations = [rows for _, rows in logs.groupby([runs.loc[logs.index, name] for name in CONFIGURATION])]
    devices = np.array([runs.loc[rows.index[0], "device"] for rows in configurations])
    differences = [np.array([abs(one - other) for one, other in combinations(rows, 2)]) for rows in configurations]
    flags = pd.Series(np.nan, index=runs.index, dtype=object)
    for position, rows in enumerate(configurations):
        sigma = np.nan
        if len(rows) >= OF_ITSELF:
            sigma = estimate_sigma(rows.to_numpy())
        elif len(rows) >= OF_OTHERS:
            alike = [number for number in np.flatnonzero(devices == devices[position]) if number != position]
            others = np.concatenate([np.array([]), *(differences[number] for number in alike)])
            sigma = DIFFERENCE_TO_SIGMA * np.median(others) if len(others) >= FEWEST_PAIRS else np.nan
        if not np.isnan(sigma):
            flags[rows.index] = (rows - rows.median()).abs() > max(LIMIT * sigma, np.log1p(SMALLEST))
    return flags


def estimate_sigma(logs: np.ndarray) -> float:
    """Return the robust standard deviation of the log rates of at least five repeats."""
    num = len(logs)
    correction = SMALL_SAMPLES.get(num, num / (num - 0.8))
    return float(DEVIATION_TO_SIGMA * correction * np.median(np.abs(logs - np.median(logs))))
