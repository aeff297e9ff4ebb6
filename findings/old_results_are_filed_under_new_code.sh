#!/usr/bin/env bash
# Finding:  If a function of joblib's memory.cache is edited while a program runs, before the program calls it for the
#           first time, the results of the old code are stored as those of the new one: the next program, with the new
#           code, gets them without computing. Arguments that the old program did not have are computed anew, so that
#           one table holds results of both. Edited after its first call, the function is computed anew.
# Packages: joblib==1.6.0
# Topic:    programs
# Source:   joblib/func_inspect.py: get_func_code reads the source file when a function is first called, not when it is
#           imported; joblib/memory.py: _check_previous_func_code writes that text beside the results as their code.
# Guess:    results carry the code that computed them (confidence 90 %).
# Hurts:    who goes on editing while a long job trains and then evaluates: the evaluation that follows is half of the
#           old code and half of the new.
# Here:     joblib is not called; the code of rules is hashed when the workflow is read, before a job loads it, so that
#           an edit meanwhile runs it again
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > scores.py <<'P'
from joblib import Memory

memory = Memory("cache", verbose=0)


@memory.cache
def early(x):
    return 2 * x


@memory.cache
def late(x):
    return 2 * x
P
cat > long_job.py <<'P'
import pathlib

import scores

scores.early(1)
source = pathlib.Path("scores.py")  # what happens meanwhile in the editor
source.write_text(source.read_text().replace("return 2", "return 50"))
scores.early(2)
print(scores.late(1), scores.late(2))
P
old=$("$python" long_job.py)
new=$("$python" -c 'import scores; print(*map(scores.late, (1, 2, 3)), *map(scores.early, (1, 2, 3)))')
echo "joblib 1.6.0: the program that runs 50 * x gets $new for 1, 2 and 3: first of a function that the program" \
    "before called after the edit, then of one it called before"
test "$old" = "2 4"
test "$new" = "2 4 150 50 100 150"
