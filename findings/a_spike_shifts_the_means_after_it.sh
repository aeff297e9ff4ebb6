#!/usr/bin/env bash
# Finding:  rolling_mean of polars 1.31.0 is wrong in all windows after a large value: of 2, 1e20, 2, 1, 1, 1, 1 the
#           last means of two are 0.5, 0, 0 and 0, though all values in these windows are 1 and 2. The variances of
#           three are 6e23 and stay there. In 2.1.0 the means are 1.5, 1, 1 and 1.
# Packages: polars==2.1.0
# Topic:    silent changes in new releases
# Source:   polars.Series.rolling_mean; the engine is compiled and was not read; both versions were run
# Guess:    none was written before the run; we would have said right in both, since each window is small.
# Hurts:    whoever smooths a loss that diverged once: the curve after the spike is off without a NaN that would show
#           it.
# Here:     tables are pandas, and no curve is smoothed
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old polars==1.31.0
cat > spike.py <<'P'
import sys

sys.path[:0] = sys.argv[1:]
import polars as pl

values = pl.Series([2.0, 1e20, 2, 1, 1, 1, 1])
print(values.rolling_mean(2).to_list()[3:], f"{values.rolling_var(3).to_list()[-1]:.0e}", end="")
P
old=$("$python" spike.py old)
new=$("$python" spike.py)
echo "last four means of two, and last variance of three; 1.31.0: $old; 2.1.0: $new"
test "$old" = "[0.5, 0.0, 0.0, 0.0] 6e+23"
test "$new" = "[1.5, 1.0, 1.0, 1.0] 0e+00"
