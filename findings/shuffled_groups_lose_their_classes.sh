#!/usr/bin/env bash
# Finding:  StratifiedGroupKFold(shuffle=True) of scikit-learn 1.7.1 does not stratify: it shuffles the counts of
#           classes against the groups that they belong to. Of 40 patients, half of them ill, some test fold of ten
#           seeds has 40 % ill and another 60 %; without shuffle=True, and in 1.9.1, all have 50 %. The same
#           random_state gives other folds in the two.
# Packages: numpy==2.3.5 scipy==1.16.0 joblib==1.5.1 threadpoolctl==3.6.0 narwhals==2.0.1
# Topic:    silent changes in new releases
# Source:   sklearn/model_selection/_split.py, StratifiedGroupKFold._iter_test_indices: 1.7.1 shuffles
#           y_counts_per_group in place and keeps the numbers of the groups; 1.9.1 permutes both.
# Guess:    stratified in both, and the same folds for the same random_state (90 %).
# Hurts:    whoever cross-validates over patients or scenes: folds are uneven by chance up to 1.7.1, and other ones
#           after it.
# Here:     no folds are drawn
source "$(dirname "$(realpath "$0")")/setup.sh"
for version in 1.7.1 1.9.1; do
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$version" "scikit-learn==$version"
done
cat > folds.py <<'P'
import sys

sys.path.insert(0, sys.argv[1])
import numpy as np
from sklearn.model_selection import StratifiedGroupKFold

groups = np.repeat(np.arange(40), 10)
ill = groups < 20
images = np.zeros((400, 1))
for shuffle in (False, True):
    least, most = 1.0, 0.0
    for seed in range(10 if shuffle else 1):
        folds = StratifiedGroupKFold(4, shuffle=shuffle, random_state=seed if shuffle else None)
        shares = [ill[test].mean() for _, test in folds.split(images, ill, groups)]
        least, most = min(least, *shares), max(most, *shares)
    print(f"{least:.2f} {most:.2f}", end=" ")
P
old=$("$python" folds.py 1.7.1)
new=$("$python" folds.py 1.9.1)
echo "least and greatest share of the ill in a fold without shuffle, and over ten seeds with it; 1.7.1: $old; 1.9.1: $new"
"$python" - "$old" "$new" <<'P'
import sys

old, new = ([float(each) for each in text.split()] for text in sys.argv[1:])
sys.exit(not (old[:2] == [0.5, 0.5] and new == [0.5] * 4 and old[2] <= 0.4 and old[3] >= 0.6))
P
