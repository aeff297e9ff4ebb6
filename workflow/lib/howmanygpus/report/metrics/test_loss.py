"""Mean cross-entropy of the test images, or of their known labels if an image has any number of them."""

import numpy as np

from howmanygpus.measure.input.prepared import MISSING
from howmanygpus.report.predictions import Predictions

NAME = "cross-entropy"
UNIT, BETTER = "nats per image or known label", "lower"
LABELS = ("one", "several")
RANGE = (0, None)


def compute(predictions: Predictions) -> float | None:
    """Return None if a logit was not finite. Label smoothing is ignored: the loss is that of the true label."""
    loss = compute_label_losses(predictions) if predictions.loss is None else predictions.loss
    return float(np.mean(loss)) if len(loss) and np.isfinite(loss).all() else None


def compute_label_losses(predictions: Predictions) -> np.ndarray:
    """Return the sigmoid cross-entropy of every known label."""
    score, label = predictions.require("score", "label")
    known = label != MISSING
    logits = score[known].astype(np.float64)
    return np.logaddexp(0.0, logits) - (label[known] == 1) * logits
