#!/usr/bin/env bash
# Finding:  In Ray Data, the mean of eight times in ns since 1970 is negative, because the int64 sum wraps; as float64 it is
#           right. The mean, sum and deviation of numbers of which one is NaN are None in a data set made from Python or
#           Arrow, and those of the others in one made from pandas; min() and max() leave NaN out in both.
# Packages: ray==2.60.0 pyarrow==26.0.1 pandas==3.1.1 numpy==2.4.6
# Topic:    statistics and metrics
# Source:   ray/data/aggregate.py: Mean adds up sums and counts of blocks; a sum is that of pyarrow or that of pandas.
# Guess:    a mean of integers is computed in float64, and does not depend on how the rows are stored.
# Hurts:    statistics of traces and of training data, such as the mean by which images are normalised.
# Here:     images are normalised by means of our own, over memory maps; tables are pandas'
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > means.py <<'P'
import sys

import numpy as np
import pandas as pd
import ray

START = 1_790_000_000 * 10**9
ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR", log_to_driver=False, object_store_memory=10**8)
ray.data.DataContext.get_current().enable_progress_bars = False
times = START + np.arange(8)
means = [float(ray.data.from_numpy(times.astype(dtype)).mean("data")) for dtype in (np.int64, np.float64)]
losses = pd.DataFrame({"loss": [1.0, 2.0, float("nan"), 6.0]})
sets = {"Python": ray.data.from_items(losses.to_dict("records")), "pandas": ray.data.from_pandas(losses)}
of_nan = {name: (data.mean("loss"), data.max("loss")) for name, data in sets.items()}
print(f"ray {ray.__version__}: mean of times around {START:.3g} as int64 and as float64 {means}; mean and maximum of 1, 2, "
      f"NaN and 6 from {of_nan}")
sys.exit(not (means[0] < 0 and abs(means[1] - START) < 1000 and of_nan == {"Python": (None, 6), "pandas": (3, 6)}))
P
RAY_USAGE_STATS_ENABLED=0 "$python" means.py 2>/dev/null
