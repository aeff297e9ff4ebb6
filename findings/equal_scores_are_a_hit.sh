#!/usr/bin/env bash
# Finding:  On JAX, a network whose scores are all NaN has a top-5 accuracy of 1 in Keras, and on PyTorch of 0. One that
#           gives 1,000 classes the same score has 1 on both: a label counts if its score is at least the fifth largest.
#           In torchmetrics, scikit-learn and by jax.lax.top_k that is 0.005, and the top-1 accuracy of Keras is 0.001.
# Packages: torch==2.13.0 numpy==2.4.6 keras==3.15.1 jax==0.10.2 torchmetrics==1.9.0 scikit-learn==1.9.1
# Topic:    statistics and metrics
# Source:   keras.ops.in_top_k counts every class that ties with the last of the k, as TensorFlow's does; on JAX it counts
#           the scores that are greater, and nothing is greater than NaN (keras/src/backend/jax/math.py).
# Guess:    chance, k out of the number of classes, and 0 for NaN.
# Hurts:    whoever chooses by top-5 accuracy: networks that diverged, died or saturate 16 bits are perfect.
# Here:     no metric of ours counts the top k; a loss that is not finite ends a run
source "$(dirname "$(realpath "$0")")/setup.sh"
cat > ties.py <<'P'
import sys

import jax
import keras
import numpy as np
import torch
from sklearn.metrics import top_k_accuracy_score
from torchmetrics.classification import MulticlassAccuracy

labels = np.arange(1000)
scores = np.full((1000, 1000), 0.001, "float32")


def ask_keras(metric, scores):
    metric.update_state(labels, scores)
    return round(float(metric.result()), 4)


top5 = {
    "keras": ask_keras(keras.metrics.SparseTopKCategoricalAccuracy(5), scores),
    "torchmetrics": round(float(MulticlassAccuracy(1000, top_k=5, average="micro")(
        torch.from_numpy(scores), torch.from_numpy(labels))), 4),
    "scikit-learn": float(top_k_accuracy_score(labels, scores, k=5)),
    "jax.lax.top_k": float((np.asarray(jax.lax.top_k(scores, 5)[1]) == labels[:, None]).any(axis=1).mean()),
}
top1 = ask_keras(keras.metrics.SparseCategoricalAccuracy(), scores)
of_nan = ask_keras(keras.metrics.SparseTopKCategoricalAccuracy(5), np.full_like(scores, np.nan))
backend = keras.backend.backend()
print(f"keras {keras.__version__} on {backend}: top-5 accuracy of equal scores {top5}; "
      f"top-1 of Keras {top1}; top-5 of NaN {of_nan}")
sys.exit(not (list(top5.values()) == [1.0, 0.005, 0.005, 0.005] and top1 == 0.001 and of_nan == float(backend == "jax")))
P
for backend in jax torch; do
    KERAS_BACKEND=$backend JAX_PLATFORMS=cpu "$python" ties.py 2>/dev/null
done
