#!/usr/bin/env bash
# Finding:  The first percentile of the step times 1, 30 and 31 ms is -26.8 ms by Python's statistics.quantiles(times,
#           n=100), and the 99th of 10, 11 and 12 ms is 13.0 ms: fewer values than percentiles are continued in a
#           straight line beyond the smallest and the largest. NumPy, with the method of the same definition, stays within.
# Packages: numpy==2.4.6
# Topic:    statistics and metrics
# Source:   statistics.quantiles, method="exclusive": the index is cut to the range, the weight beside it is not.
# Guess:    a percentile lies between the smallest and the largest value.
# Hurts:    tail latencies of few repeats, and of the few windows of a short run: slower than any that was measured.
# Here:     percentiles of steps are NumPy's, of all steps of a run; intervals of repeats are order statistics
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P'
import platform
import statistics
import sys

import numpy as np

low, high = [1, 30, 31], [10, 11, 12]
first, last = statistics.quantiles(low, n=100)[0], statistics.quantiles(high, n=100)[-1]
within = [float(np.quantile(values, q, method="weibull")) for values, q in ((low, 0.01), (high, 0.99))]
inclusive = statistics.quantiles(low, n=100, method="inclusive")[0]
print(f"Python {platform.python_version()}: first percentile of {low}: {first}, 99th of {high}: {last}; NumPy's "
      f"weibull: {within}; inclusive: {inclusive}")
sys.exit(not (round(first, 2) == -26.84 and round(last, 2) == 12.96 and within == [1.0, 12.0] and inclusive > 1))
P
