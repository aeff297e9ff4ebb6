#!/usr/bin/env bash
# Finding:  A trial whose loss is NaN teaches Optuna's TPE nothing: where the best learning rate is the largest that
#           does not diverge, every trial after the ten of the start diverges, 90 of 100. So it is if the trial raises
#           an error. If it returns 1000 instead, 40 of 100 diverge, and if its process is killed, so that the trial
#           stays "running", about as many: Optuna 5 counts such a trial among the bad ones.
# Packages: optuna==5.0.0 numpy==2.4.6
# Topic:    statistics and metrics
# Source:   optuna/study/_tell.py: a trial with a value of NaN gets the state FAIL; optuna/samplers/_tpe/sampler.py:
#           _sample reads trials that are COMPLETE or PRUNED, and RUNNING ones with constant_liar, which is the default
#           of 5.0.0 and was not that of 4.4.0. optuna.study.Study.optimize says that the study goes on, not that the
#           sampler leaves the trial out.
# Guess:    the sampler learns to stay away from the rates that diverge (confidence 85 %).
# Hurts:    searches for a learning rate or a precision: nearly all of the budget goes into runs that diverge, and
#           Optuna looks worse than a random search, of which a third would diverge here.
# Here:     no search of Optuna is run; a run that diverges is an outcome of its own, in all tables
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > search.py <<'P'
import math
import warnings

import optuna

warnings.filterwarnings("ignore")
optuna.logging.set_verbosity(optuna.logging.CRITICAL)


def diverged(end, sampler):
    """Return how many of 100 trials have a rate above 0.1. Below it, the loss is the smaller the larger the rate is."""
    study = optuna.create_study(sampler=sampler)
    count = 0
    for _ in range(100):
        trial = study.ask()
        rate = trial.suggest_float("rate", 1e-5, 10, log=True)
        count += rate > 0.1
        if rate <= 0.1:
            study.tell(trial, -math.log10(rate))
        elif end == "error":
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        elif end != "killed":
            study.tell(trial, {"NaN": math.nan, "1000": 1000}[end], skip_if_finished=True)
    return count


counts = {end: [diverged(end, optuna.samplers.TPESampler(seed=seed)) for seed in range(3)]
          for end in ("NaN", "error", "1000", "killed")}
random = [diverged("NaN", optuna.samplers.RandomSampler(seed=seed)) for seed in range(3)]
print(f"optuna {optuna.__version__}: of 100 trials, in 3 searches, " +
      ", ".join(f"{found} diverge if that is {end}" for end, found in counts.items()) + f"; at random {random}")
assert counts["NaN"] == counts["error"] == [90, 90, 90]
assert max(counts["1000"] + counts["killed"]) < 60 and max(random) < 50
P
"$python" search.py
