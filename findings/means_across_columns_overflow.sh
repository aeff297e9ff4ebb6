#!/usr/bin/env bash
# Finding:  polars' mean_horizontal() adds up in the type of the columns: of three UInt8 columns of 100 the mean is 14.67,
#           and of eight Int64 columns of times in ns since 1970 it is negative. The mean of the same numbers in a column, in
#           a list and in a group is right, and so is mean_horizontal() of floating-point columns.
# Packages: polars==2.1.0
# Topic:    statistics and metrics
# Source:   14.67 is 44 / 3, and 44 is what sum_horizontal() gives; the pages of both say nothing of types, where that of
#           sum() names the types that it widens.
# Guess:    a mean is a Float64 from the start, as mean() of a column is.
# Hurts:    means over repeats, readers or models that are columns, such as scores in percent as UInt8.
# Here:     tables are pandas'; means over repeats are NumPy's, of float64
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > means.py <<'P'
import sys

import polars as pl

found = {}
for dtype, value, count in ((pl.UInt8, 100, 3), (pl.Int64, 1_790_000_000 * 10**9, 8), (pl.Float32, 100, 3)):
    column = pl.Series("x", [value] * count, dtype=dtype)
    columns = pl.DataFrame({f"repeat {i}": column[i : i + 1] for i in range(count)})
    lists = pl.DataFrame({"x": pl.Series([column.to_list()], dtype=pl.List(dtype))})
    groups = pl.DataFrame({"x": column, "group": ["a"] * count}).group_by("group").agg(pl.col("x").mean())
    right = [column.mean(), lists.select(pl.col("x").list.mean()).item(), groups["x"].item()]
    assert right == [value] * 3
    found[str(dtype)] = columns.mean_horizontal().item(), right[0]
print(f"polars {pl.__version__}: mean of equal numbers in columns, and in one column: {found}")
sys.exit(not (round(found["UInt8"][0], 2) == 14.67 and found["Int64"][0] < 0 and found["Float32"] == (100, 100)))
P
"$python" means.py
