#!/usr/bin/env bash
# Finding:  The median of two repeats, 10 and 20, is 10 by the only median that pyarrow has for groups; of four it is the
#           mean of the middle two. In DuckDB the median of the prices 0.1 and 0.2 is 0.1, and that of 0.3 and 0.4 is 0.3,
#           if they are decimals, as numbers that stand in a query are; avg() of them is right, and so are doubles.
# Packages: duckdb==2.0.1 pyarrow==26.0.1 numpy==2.4.6
# Topic:    statistics and metrics
# Source:   pyarrow's approximate_median is of a t-digest, which does not interpolate between its first and last value.
#           DuckDB reads 0.1 as a decimal of one digit, and its median has as many.
# Guess:    the mean of both: an approximation of few values is exact, and a number is a double.
# Hurts:    two repeats of a configuration: the time is that of the faster one. Prices by the hour.
# Here:     medians are NumPy's and pandas'
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P'
import sys

import duckdb
import pyarrow as pa

repeats = pa.table({"configuration": ["two"] * 2 + ["four"] * 4, "seconds": [10.0, 20.0, 10.0, 20.0, 30.0, 40.0]})
grouped = repeats.group_by("configuration").aggregate([("seconds", "approximate_median")])
medians = dict(zip(*(column.to_pylist() for column in (grouped["configuration"], grouped["seconds_approximate_median"]))))


def ask(low, high, kind):
    """Return the median and the mean of two prices."""
    query = f"select median(price::{kind}), avg(price::{kind}) from (values ({low}), ({high})) as prices(price)"
    return tuple(round(float(value), 3) for value in duckdb.sql(query).fetchall()[0])


prices = {kind: [ask(0.1, 0.2, kind), ask(0.3, 0.4, kind)] for kind in ("decimal(2, 1)", "double")}
written = duckdb.sql("select typeof(price) from (values (0.1), (0.2)) as prices(price)").fetchall()[0][0]
print(f"pyarrow {pa.__version__}: {medians}; duckdb {duckdb.__version__}, where 0.1 is a {written}: medians and means of "
      f"0.1 and 0.2, of 0.3 and 0.4: {prices}")
low, high = (0.15, 0.15), (0.35, 0.35)
sys.exit(not (medians == {"two": 10.0, "four": 25.0} and written == "DECIMAL(2,1)" and prices["double"] == [low, high]
              and prices["decimal(2, 1)"] == [(0.1, 0.15), (0.3, 0.35)]))
P
