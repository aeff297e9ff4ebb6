#!/usr/bin/env bash
# Finding:  Three repeats against three give the rank test of SciPy p = 0.1 at best, but 0.047 if the repeats of each side
#           are equal: with ties it silently takes the normal approximation instead of the exact distribution.
# Packages: scipy==1.17.1 numpy==2.4.6
# Topic:    statistics and metrics
# Source:   scipy.stats.mannwhitneyu, method="auto". Exactly, 1 of 10 ways to choose a side on each end: p = 0.1.
# Guess:    0.1, ties or not.
# Hurts:    steps or epochs to a target, which are whole numbers and tie often: "significant" at 0.05 with three repeats.
# Here:     no p-values of ranks: intervals of medians with the level that few repeats have, docs/method.md
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P'
import sys

from scipy.stats import mannwhitneyu

distinct = mannwhitneyu([10.1, 10.2, 10.3], [11.1, 11.2, 11.3]).pvalue
tied = mannwhitneyu([10, 10, 10], [11, 11, 11]).pvalue
print(f"p of three epochs against three: {distinct:.3f} if all differ, {tied:.3f} if each side repeats one number")
sys.exit(not (abs(distinct - 0.1) < 1e-12 and tied < 0.05))
P
