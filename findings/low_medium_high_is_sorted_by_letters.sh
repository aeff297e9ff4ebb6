#!/usr/bin/env bash
# Finding:  A Categorical of polars is ordered by first appearance in 1.31.0 and by letters in 2.1.0: of low, medium,
#           high, in this order, max() is high and medium; sort() and rank() change alike. Categorical("physical"),
#           which asks for the order of appearance, has that of the letters, too, without a warning.
# Packages: polars==2.1.0
# Topic:    silent changes in new releases
# Source:   polars/datatypes/classes.py, Categorical: 1.31.0 has order of appearance as the default;
#           github.com/pola-rs/polars, pull request 28057 and issue 25447: "physical" is no longer an order and may be
#           the name of categories
# Guess:    by appearance, as the physical order says (75 %).
# Hurts:    whoever relies on the order of levels: largest level, rank correlations and order of rows change silently.
# Here:     tables are pandas
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old polars==1.31.0
cat > levels.py <<'P'
import sys

sys.path[:0] = sys.argv[1:]
import warnings

import polars as pl

warnings.simplefilter("error")
for kind in (pl.Categorical, pl.Categorical("physical")):
    levels = pl.Series(["low", "medium", "high"], dtype=kind)
    print(levels.max(), *levels.sort(), *(f"{rank:.0f}" for rank in levels.rank()), end=", ")
P
old=$("$python" levels.py old)
new=$("$python" levels.py)
echo "largest level, sorted levels, ranks; and with physical; 1.31.0: $old; 2.1.0: $new"
test "$old" = "high low medium high 1 2 3, high low medium high 1 2 3, "
test "$new" = "medium high low medium 2 3 1, medium high low medium 2 3 1, "
