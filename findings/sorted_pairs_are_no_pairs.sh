#!/usr/bin/env bash
# Finding:  posthoc_wilcoxon(sort=True) of scikit-posthocs 0.11.4 sorts the scores of each group as well, so that the
#           test for pairs compares the smallest with the smallest and the largest with the largest: of two methods on
#           the same 12 data sets, p is 0.0005 and not 0.016. In 0.17.1 the groups alone are sorted, and p is 0.016.
#           Without sort=True it is 0.016 in both.
# Packages: numpy==2.4.6 pandas==3.1.1 scipy==1.17.1 statsmodels==0.15.0 scikit-posthocs==0.17.1
# Topic:    silent changes in new releases
# Source:   scikit_posthocs/_posthocs.py, posthoc_wilcoxon: 0.11.4 sorts by [group, value], 0.17.1 by the group with a
#           stable sort. Both say of the argument that it sorts the groups or the table, and neither warns.
# Guess:    sort=True orders the rows and columns of the table of p-values (confidence 90 %).
# Hurts:    comparisons of frameworks or methods on the same data sets, in which differences become significant: the
#           variance between data sets, which pairs take out, is gone and the order within a pair with it.
# Here:     no p-values of ranks: intervals of medians with the level that few repeats have, docs/method.md
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --target old scikit-posthocs==0.11.4 \
    statsmodels==0.14.6
cat > pairs.py <<'P'
import sys
import warnings
from importlib.metadata import version

if sys.argv[1] != "new":
    sys.path.insert(0, sys.argv[1])
warnings.filterwarnings("ignore")
import numpy as np
import pandas as pd
import scikit_posthocs
from scipy.stats import wilcoxon

random = np.random.default_rng(0)
difficulty = random.normal(0, 10, 12)
first, second = (difficulty + random.normal(shift, 1, 12) for shift in (1.5, 0))
table = pd.DataFrame({"method": ["first"] * 12 + ["second"] * 12, "score": np.concatenate([first, second])})
settings = {"val_col": "score", "group_col": "method"}
unsorted, ordered = (scikit_posthocs.posthoc_wilcoxon(table, sort=sort, **settings).loc["first", "second"]
                     for sort in (False, True))
right = wilcoxon(first, second).pvalue
print(f"scikit-posthocs {version('scikit-posthocs')}: p is {unsorted:.4f} without sort, {ordered:.4f} with sort=True; "
      f"by SciPy it is {right:.4f}")
equal = [bool(np.isclose(p, right)) for p in (unsorted, ordered)]
sys.exit(equal != {"old": [True, False], "new": [True, True]}[sys.argv[1]])
P
status=0
for version in old new; do
    "$python" pairs.py "$version" || status=1
done
exit "$status"
