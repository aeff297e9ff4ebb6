#!/usr/bin/env bash
# Finding:  with_format("numpy") of Hugging Face's datasets gives a column of float64 as float32: four times that are ten
#           seconds apart are one number. With the format "pandas", and without a format, they are kept.
# Packages: datasets==5.2.0 numpy==2.4.6
# Topic:    loaders
# Source:   datasets/formatting/np_formatter.py and its siblings: floating columns become float32 unless a dtype is given.
# Guess:    NumPy has float64, and a column of float64 stays it.
# Hurts:    logs and telemetry in a data set: times since 1970 are rounded to 128 seconds, and losses no longer compare.
# Here:     times are recorded in JSON and read as float64
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > times.py <<'P'
import sys

import datasets
import numpy as np

start = 1_790_000_000.0
data = datasets.Dataset.from_dict({"time": [start + 10.5 * i for i in range(4)]})
found = {}
for name in (None, "numpy", "pandas"):
    times = np.asarray(data.with_format(name)[:]["time"])
    found[str(name)] = (str(times.dtype), np.diff(times).tolist())
print(f"datasets {datasets.__version__}, a column of {data.features['time'].dtype}: type and differences of times by "
      f"format: {found}")
sys.exit(not (found["None"] == found["pandas"] == ("float64", [10.5] * 3) and found["numpy"] == ("float32", [0.0] * 3)))
P
HF_HOME="$folder/cache" HF_HUB_OFFLINE=1 "$python" times.py 2>/dev/null
