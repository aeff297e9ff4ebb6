#!/usr/bin/env bash
# Finding:  keras.metrics.AUC of a rare label whose probabilities are small is far too low: 0.73 for 0.85, because 198 of
#           its 200 thresholds are evenly spaced and almost all scores lie below the first.
# Packages: tensorflow-cpu==2.21.0 keras==3.15.1 scikit-learn==1.9.1
# Topic:    statistics and metrics
# Source:   keras/src/metrics/confusion_metrics.py, num_thresholds=200 over [0, 1].
# Guess:    within 0.01 of the exact area.
# Hurts:    findings that few chest X-rays have: their areas depend on how confident a network is, not on its ranking.
# Here:     report/metrics/roc_auc.py ranks all scores
source "$(dirname "$(realpath "$0")")/setup.sh"
"$python" - <<'P' 2>/dev/null
import sys

import keras
import numpy as np
from sklearn.metrics import roc_auc_score

generator = np.random.default_rng(0)
labels = (generator.random(20_000) < 0.002).astype("float32")
scores = 1 / (1 + np.exp(6.5 - 1.5 * labels - generator.normal(size=20_000)))
exact, found = roc_auc_score(labels, scores), float(keras.metrics.AUC()(labels, scores.astype("float32")))
print(f"{labels.sum():.0f} of 20,000 have the label, scores up to {scores.max():.2f}: exact {exact:.3f}, Keras {found:.3f}")
sys.exit(not exact - found > 0.08)
P
