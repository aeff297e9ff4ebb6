#!/usr/bin/env bash
# Finding:  If one run is missing in a table of data sets and methods, posthoc_conover_friedman of scikit-posthocs
#           0.11.4 ranks the others of its data set and takes the variance of a whole table: p of two methods whose runs
#           are all there is 0.0002, and 0.012 in the whole table. 0.17.1 leaves the data set out, as Friedman's test
#           does: 0.014. posthoc_dunn and posthoc_conover of 0.11.4 count a NaN as an observation, 0.17.1 does not.
# Packages: numpy==2.4.6 pandas==3.1.1 scipy==1.17.1 statsmodels==0.15.0 scikit-posthocs==0.17.1
# Topic:    silent changes in new releases
# Source:   scikit_posthocs/_posthocs.py: in 0.11.4 the tests for blocks drop the rows that have a NaN, in 0.17.1 the
#           function __drop_incomplete_blocks drops their blocks; posthoc_dunn of 0.11.4 takes n and the sizes of the
#           groups from all rows and the ranks from those without NaN. Nothing warns.
# Guess:    a data set with a missing run is left out, and so is a NaN (confidence 80 %).
# Hurts:    comparisons of methods over data sets in which a run ended without memory: the more are missing, the more
#           significant are the differences among the others.
# Here:     no p-values of ranks: intervals of medians with the level that few repeats have, docs/method.md
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old scikit-posthocs==0.11.4 \
    statsmodels==0.14.6
cat > missing.py <<'P'
import sys
import warnings
from importlib.metadata import version

if sys.argv[1] != "new":
    sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
import numpy as np
import pandas as pd
import scikit_posthocs

random = np.random.default_rng(1)
scores = random.normal(0, 5, (12, 1)) + random.normal(0, 1, (12, 3)) + [0.0, 0.6, 0.9]
whole = pd.DataFrame(scores, columns=["first", "second", "third"])
one_missing = whole.copy()
one_missing.loc[0, "second"] = np.nan
tables = whole, one_missing, one_missing.dropna()
friedman = [scikit_posthocs.posthoc_conover_friedman(table).loc["first", "third"] for table in tables]

groups = one_missing.melt(var_name="method", value_name="score")
groups.loc[groups.index[:4], "score"] = np.nan
dunn = [scikit_posthocs.posthoc_dunn(table, "score", "method").loc["first", "third"]
        for table in (groups, groups.dropna())]
print(f"scikit-posthocs {version('scikit-posthocs')}: p after Friedman's test is {friedman[0]:.4f} in the whole table, "
      f"{friedman[1]:.4f} with a run missing, {friedman[2]:.4f} without its data set; Dunn's is {dunn[0]:.3f} with NaN "
      f"and {dunn[1]:.3f} without these rows")
if sys.argv[1] == "new":
    sys.exit(not np.allclose([friedman[1], dunn[0]], [friedman[2], dunn[1]]))
sys.exit(not (friedman[1] < 0.02 * friedman[2] and dunn[0] > 1.1 * dunn[1]))
P
status=0
for version in old new; do
    "$python" missing.py "$version" || status=1
done
exit "$status"
