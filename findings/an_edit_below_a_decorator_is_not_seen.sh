#!/usr/bin/env bash
# Finding:  joblib's @memory.cache above @torch.no_grad() does not see an edit of the function: the next call gives the
#           result of the old code, without a warning. It reads the code of the decorator's wrapper, so that this holds
#           for all decorators with functools.wraps. In the other order, @memory.cache below, the function is computed
#           anew.
# Packages: torch==2.13.0 numpy==2.4.6 joblib==1.6.0
# Topic:    programs
# Source:   joblib/func_inspect.py: get_func_code reads the file and the line of func.__code__ and does not follow
#           __wrapped__; get_func_name follows the name that wraps() copies, so that each function has its own folder,
#           whose func_code.py holds the lines of torch/utils/_contextlib.py. Issue 1371 of joblib is open since 2022.
# Guess:    an edited function is computed anew (confidence 90 %).
# Hurts:    features, scores and checks that are cached on disk: after an edit of the preprocessing all numbers are
#           those of before, and "it makes no difference" is what one concludes.
# Here:     joblib is not called; code is compared by the syntax trees of whole files
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > scores.py <<'P'
import torch
from joblib import Memory

memory = Memory("cache", verbose=0)


@memory.cache
@torch.no_grad()
def above(x):
    return 2 * x


@torch.no_grad()
@memory.cache
def below(x):
    return 2 * x


print(above(1), below(1))
P
before=$("$python" -c 'import scores')
sed -i 's/return 2/return 50/' scores.py
after=$("$python" -c 'import scores')
stored=$(cat "$(find cache -path '*above*' -name func_code.py)")
echo "joblib 1.6.0: 2 * x edited to 50 * x, for x = 1: $after with memory.cache above torch.no_grad and below it" \
    "(before: $before)"
test "$before" = "2 2"
test "$after" = "2 50"
grep -q decorate_context <<< "$stored"
