#!/usr/bin/env bash
# Finding:  In a Parquet file, DuckDB finds no row whose loss is NaN: isnan(loss) selects none, and max(loss) is 3,
#           where max(loss), avg(loss) in one query gives NaN twice. The same rows in memory, or one row in each row
#           group, are right. In pyarrow's dataset, loss != 5 loses the NaN if the others of its row group are 5.
# Packages: duckdb==2.0.1 pyarrow==26.0.1 numpy==2.4.6
# Topic:    statistics and metrics
# Source:   both skip row groups by their statistics, which leave out NaN.
# Guess:    the same rows from a file as from memory, whatever its row groups.
# Hurts:    tables of results: runs that diverged are not found, and the largest loss is finite.
# Here:     tables are tab-separated text, read whole
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > filter.py <<'P'
import sys

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet

losses = pa.table({"loss": [0.5, float("nan"), 2.0, 3.0]})
pa.parquet.write_table(losses, "whole.parquet")
pa.parquet.write_table(losses, "single.parquet", row_group_size=1)


def ask(question, source, where=""):
    return duckdb.sql(f"select {question} from {source} {where}").fetchall()[0]


found = {}
for source in ("losses", "'single.parquet'", "'whole.parquet'"):
    diverged = ask("count(*)", source, "where isnan(loss)")[0]
    found[source] = (diverged, str(ask("max(loss)", source)[0]), str(ask("max(loss), avg(loss)", source)[0]))
print(f"duckdb {duckdb.__version__}: rows that are NaN, largest loss, and the same when asked with the mean: {found}")
fives = pa.table({"loss": [5.0, float("nan"), 5.0]})
pa.parquet.write_table(fives, "fives.parquet")
other = pc.field("loss") != 5
from_file = pa.dataset.dataset("fives.parquet").to_table(filter=other).num_rows
from_memory = fives.filter(other).num_rows
print(f"pyarrow {pa.__version__}: rows that are not 5: {from_memory} in memory, {from_file} in the file")
right, wrong = (1, "nan", "nan"), (0, "3.0", "nan")
sys.exit(list(found.values()) != [right, right, wrong] or (from_file, from_memory) != (0, 1))
P
"$python" filter.py
