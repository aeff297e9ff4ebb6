#!/usr/bin/env bash
# Finding:  DataFrame.pivot(aggregate_function="sum") of polars fills a combination that has no rows with null in
#           1.31.0 and with 0 in 2.1.0, so that the mean over the runs of a framework is another: of 6 and of one
#           missing it is 6 in the one and 3 in the other. So is "len". "mean" has null in both.
# Packages: polars==2.1.0
# Topic:    silent changes in new releases
# Source:   github.com/pola-rs/polars, pull request 23586: cells without rows get the result of no rows, which is 0 for
#           sum and len
# Guess:    null in both: what was not measured has no value (85 %).
# Hurts:    whoever makes tables of repeats: what was not run counts as 0 seconds, 0 images or 0 errors in 2.1.0.
# Here:     tables are pandas
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old polars==1.31.0
cat > pivot.py <<'P'
import sys

sys.path[:0] = sys.argv[1:]
import polars as pl

runs = pl.DataFrame({"framework": ["a", "a", "b"], "seed": ["s1", "s2", "s1"], "hours": [5.0, 7.0, 6.0]})
for function in ("sum", "mean", "len"):
    table = runs.pivot("seed", index="framework", values="hours", aggregate_function=function)
    print(function, table["s2"].to_list()[1], end=", ")
table = runs.pivot("seed", index="framework", values="hours", aggregate_function="sum")
print("mean of b", table.select(pl.mean_horizontal("s1", "s2")).to_series()[1], end="")
P
old=$("$python" pivot.py old)
new=$("$python" pivot.py)
echo "cell of the missing run; 1.31.0: $old; 2.1.0: $new"
test "$old" = "sum None, mean None, len None, mean of b 6.0"
test "$new" = "sum 0.0, mean None, len 0, mean of b 3.0"
