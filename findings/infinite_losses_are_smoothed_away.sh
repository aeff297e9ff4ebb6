#!/usr/bin/env bash
# Finding:  pandas leaves infinite values out of every moving window as if they were missing: after losses of 1, 0.5 and
#           then infinity alone, ewm(alpha=0.5).mean() stays at 0.67, rolling(3, min_periods=1).max() is 0.5 and then
#           nothing, and expanding().max() is 1 to the end. cummax() keeps the infinity, and so does polars in all three.
# Packages: pandas==3.1.1 polars==2.1.0 numpy==2.4.6
# Topic:    statistics and metrics
# Source:   pandas/core/window/rolling.py, _prep_values, replaces infinity by NaN before any window is computed.
# Guess:    the largest of values of which one is infinite is infinite, and so is their mean.
# Hurts:    smoothed curves of losses: a run that diverged keeps its last good value to the end.
# Here:     curves are drawn from the values as they are recorded; a loss that is not finite ends a run
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P'
import sys

import pandas as pd
import polars as pl

inf = float("inf")
losses = [1.0, 0.5, inf, inf, inf, inf]
series, other = pd.Series(losses), pl.Series(losses)
found = {
    "ewm mean": (series.ewm(alpha=0.5).mean(), other.ewm_mean(alpha=0.5)),
    "rolling max": (series.rolling(3, min_periods=1).max(), other.rolling_max(3, min_samples=1)),
    "expanding max": (series.expanding().max(), other.cum_max()),
}
for name, (pandas, polars) in found.items():
    print(f"{name}: pandas {pd.__version__} {[round(x, 2) for x in pandas]}, "
          f"polars {pl.__version__} {[round(x, 2) for x in polars]}")
print(f"cummax of pandas: {series.cummax().tolist()}")
finite = all((pandas != inf).all() for pandas, _ in found.values())
last = [found[name][0].iloc[-1] for name in ("ewm mean", "expanding max")]
third = [polars[2] for _, polars in found.values()]
sys.exit(not (finite and abs(last[0] - 2 / 3) < 1e-9 and last[1] == 1.0 and third == [inf] * 3
              and series.cummax().iloc[-1] == inf))
P
