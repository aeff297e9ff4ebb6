#!/usr/bin/env bash
# Finding:  anova_lm of statsmodels 0.15.0 counts a level of a categorical column that has no rows, as pandas leaves one
#           after a filter: of three groups left of four it takes 3 degrees of freedom and not 2, and a sum of squares
#           that is more than there is between the groups. p is 0.008 and not 0.003, by SciPy, too; for two factors with
#           typ=2 a factor has a sum of 0 and p = 1 instead of 0.76. remove_unused_categories() makes all right. The
#           warning says that the parameters are not unique, which a sum of squares does not depend on.
# Packages: numpy==2.4.6 pandas==3.1.1 scipy==1.17.1 statsmodels==0.15.0
# Topic:    statistics and metrics
# Source:   statsmodels/stats/anova.py: degrees of freedom are the columns of the formula's term, and sums are those of
#           the coefficients of a QR decomposition, one of which belongs to a column of zeros or one that depends on
#           others. The formula makes a column for each category of the type.
# Guess:    a level without rows has no effect (confidence 90 %).
# Hurts:    analyses of a part of a table, one framework or one size left out, whose text columns were made categories
#           for memory or order.
# Here:     no analysis of variance: intervals of medians, docs/method.md
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > anova.py <<'P'
import sys
import warnings

import numpy as np
import pandas as pd
import statsmodels
from scipy.stats import f_oneway
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

random = np.random.default_rng(0)
table = pd.DataFrame({"framework": pd.Categorical(random.choice(list("abcd"), 60, p=[0.2, 0.3, 0.2, 0.3])),
                      "size": random.choice([0, 1], 60, p=[0.3, 0.7])})
table["time"] = random.normal(size=60) + (table.framework == "b") * 0.8 + (table["size"] == 0) * 0.5


def analyse(left_out, formula, typ, clean=False):
    """Return the degrees of freedom, sums of squares, p-values and warnings without this framework."""
    rows = table[table.framework != left_out]
    if clean:
        rows = rows.assign(framework=rows.framework.cat.remove_unused_categories())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = anova_lm(ols(formula, rows).fit(), typ=typ)
    return result["df"].iloc[:-1].tolist(), result["sum_sq"].tolist(), result["PR(>F)"].tolist(), len(caught)


one = [analyse("d", "time ~ C(framework)", 1, clean) for clean in (False, True)]
two = [analyse("a", "time ~ C(framework) * C(size)", 2, clean) for clean in (False, True)]
rows = table[table.framework != "d"]
scipy_p = f_oneway(*[rows.time[rows.framework == name] for name in "abc"]).pvalue
print(f"statsmodels {statsmodels.__version__}: of three groups df {one[0][0]}, sum {one[0][1][0]:.2f}, p "
      f"{one[0][2][0]:.4f} with the fourth level, df {one[1][0]}, sum {one[1][1][0]:.2f}, p {one[1][2][0]:.4f} "
      f"without, by SciPy {scipy_p:.4f}; p of the size {two[0][2][1]:.2f} with it, {two[1][2][1]:.2f} without")
sys.exit(not (one[0][0] == [3] and one[1][0] == [2] and one[0][1][0] > one[1][1][0] + 0.05
              and one[0][2][0] > 2 * one[1][2][0] and np.isclose(one[1][2][0], scipy_p)
              and two[0][2][1] > 0.99 and two[1][2][1] < 0.8 and one[1][3] == 0))
P
"$python" anova.py
