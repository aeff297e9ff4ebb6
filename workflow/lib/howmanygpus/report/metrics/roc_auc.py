"""
Area under the ROC curve of two classes (ROC AUC), as scikit-learn computes it.

The second class counts as the positive one. With the first in its place, the area is the same.
"""

import numpy as np

from howmanygpus.report.predictions import Predictions

NAME = "ROC AUC"
UNIT, BETTER = "area", "higher"
LABELS = ("one",)
RANGE = (0, 1)
MAX_CLASSES = 2


def compute(predictions: Predictions) -> float | None:
    """Return None if the images are of one class, if a score is not finite, or if an older version stored no scores."""
    score, label = predictions.score, predictions.label
    if score is None or label is None or len(np.unique(label)) != 2 or not np.isfinite(score).all():
        return None
    # Imported here because it takes a second, also in the jobs of studies with more classes.
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(label, score))
