#!/usr/bin/env bash
# Finding:  posthoc_tamhane of scikit-posthocs 0.11.4 corrects the p-values of all pairs for as many tests as there are
#           groups: of ten groups for 10, though 45 pairs are compared. Of 400 sets of ten equal groups, 15 % have a
#           significant difference at 5 %; in 0.17.1, which corrects for 45, they are 5 %. With three groups, which have
#           three pairs, the two versions are equal.
# Packages: numpy==2.4.6 pandas==3.1.1 scipy==1.17.1 statsmodels==0.15.0 scikit-posthocs==0.17.1
# Topic:    silent changes in new releases
# Source:   scikit_posthocs/_posthocs.py, the end of posthoc_tamhane: 1 - (1 - p) ** groups.size in 0.11.4, and m = k (k
#           - 1) / 2 instead of groups.size in 0.17.1. The page describes the test for m = k (k - 1) / 2 hypotheses in
#           both.
# Guess:    the p-values are corrected for the pairs that are compared (confidence 95 %).
# Hurts:    comparisons of many frameworks or settings whose variances differ, for which the test is made.
# Here:     no p-values: intervals of medians with the level that few repeats have, docs/method.md
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
import scikit_posthocs
from scipy.stats import ttest_ind


def test(groups, seed):
    """Return the smallest p-value of groups drawn alike, and for how many tests it is corrected."""
    samples = np.random.default_rng(seed).normal(size=(groups, 10))
    table = scikit_posthocs.posthoc_tamhane(list(samples)).to_numpy()
    pairs = [(i, j) for i in range(groups) for j in range(i)]
    smallest = min(pairs, key=lambda pair: table[pair])
    alone = ttest_ind(*samples[list(smallest)], equal_var=False).pvalue
    return table[smallest], round(np.log1p(-table[smallest]) / np.log1p(-alone))


tests = [test(10, seed) for seed in range(400)]
of_ten, of_three = {count for _, count in tests}, test(3, 0)[1]
found = np.mean([smallest < 0.05 for smallest, _ in tests])
print(f"scikit-posthocs {version('scikit-posthocs')}: ten groups are corrected for {of_ten} tests, three for "
      f"{of_three}; {found:.1%} of 400 sets of ten equal groups have a significant pair")
counted = {"old": ({10}, 3), "new": ({45}, 3)}[sys.argv[1]]
sys.exit((of_ten, of_three) != counted or (sys.argv[1] == "old") != bool(found > 0.1))
P
status=0
for version in old new; do
    "$python" pairs.py "$version" || status=1
done
exit "$status"
