#!/usr/bin/env bash
# Finding:  SciPy 1.17.1 ranks float16 samples in float16: for three samples of 300 scores from one distribution,
#           kruskal and friedmanchisquare give p = 0, where 1.16.0, and float32 in both, give 0.22 and 0.35.
#           mannwhitneyu and wilcoxon give NaN. For float32 samples the p-values of 1.17.1 are near and no longer equal.
# Packages: numpy==2.3.5
# Topic:    silent changes in new releases
# Source:   scipy/stats/_stats_py.py and _mannwhitneyu.py: ranks and counts of ties are cast to the type of the samples,
#           and n ** 3 and the sums of ranks overflow at 65,504. Until 1.16 ranks were float64 whatever the samples
#           were.
# Guess:    equal, because ranks do not depend on the type (90 %).
# Hurts:    whoever tests scores that a network in half precision returned: nothing becomes significant.
# Here:     no rank test of SciPy is called
source "$(dirname "$(realpath "$0")")/setup.sh"
for version in 1.16.0 1.17.1; do
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$version" "scipy==$version"
done
cat > test.py <<'P'
import sys
import warnings

sys.path.insert(0, sys.argv[1])
import numpy as np
from scipy import stats

warnings.simplefilter("ignore")
random = np.random.default_rng(1)
scores = [random.normal(size=300).astype(np.float16) for _ in range(3)]
for kind in (np.float16, np.float32):
    a, b, c = (each.astype(kind) for each in scores)
    values = [stats.kruskal(a, b, c), stats.friedmanchisquare(a, b, c), stats.mannwhitneyu(a, b), stats.wilcoxon(a, b)]
    print(*(f"{value.pvalue:.3f}" for value in values), end="; ")
P
old=$("$python" test.py 1.16.0)
new=$("$python" test.py 1.17.1)
echo "p of kruskal, friedmanchisquare, mannwhitneyu, wilcoxon for float16; float32"
echo "1.16.0: $old"
echo "1.17.1: $new"
"$python" - "$old" "$new" <<'P'
import sys

old, new = ([part.split() for part in text.split(";")[:2]] for text in sys.argv[1:])
float64 = old[1]
holds = old[0] == float64 and all(float(p) > 0.01 for p in float64)
near = all(abs(float(a) - float(b)) < 0.01 for a, b in zip(new[1], float64))
sys.exit(not (holds and near and new[0] == ["0.000", "0.000", "nan", "nan"]))
P
