"""
Mean over the labels of the area under each label's ROC curve (macro ROC AUC), as scikit-learn computes it.

The curve of a label is computed from the test images for which the label is known. A label that all or none of them
have has no curve and is left out of the mean.
"""

import numpy as np

from howmanygpus.measure.input.prepared import MISSING
from howmanygpus.report.predictions import Predictions

NAME = "macro ROC AUC"
UNIT, BETTER = "area", "higher"
LABELS = ("several",)
RANGE = (0, 1)


def compute(predictions: Predictions) -> float | None:
    """Return None if no label has a curve, or if a score is not finite."""
    areas = compute_by_label(predictions)
    defined = areas[np.isfinite(areas)]
    return float(defined.mean()) if len(defined) else None


def compute_by_label(predictions: Predictions) -> np.ndarray:
    """Return the area of each label, float64 (classes,), nan where it is undefined."""
    # Imported here because it takes a second, also in the jobs of studies with one label per image.
    from sklearn.metrics import roc_auc_score

    score, label = predictions.require("score", "label")
    areas = np.full(label.shape[1], np.nan)
    if not np.isfinite(score).all():
        return areas
    for number in np.setdiff1d(np.arange(label.shape[1]), list_undefined_labels(label)):
        known = label[:, number] != MISSING
        areas[number] = roc_auc_score(label[known, number], score[known, number])
    return areas


def list_undefined_labels(labels: np.ndarray) -> list[int]:
    """Return the numbers of the labels that all or none of the test images with a known value have."""
    has_both = (labels == 1).any(axis=0) & (labels == 0).any(axis=0)
    return np.flatnonzero(~has_both).tolist()
