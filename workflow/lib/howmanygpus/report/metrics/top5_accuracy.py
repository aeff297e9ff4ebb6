"""Fraction of test images whose true label is among the five with the highest scores."""

import numpy as np

from howmanygpus.report.predictions import Predictions

NAME = "top-5 accuracy"
UNIT, BETTER = "fraction of test images", "higher"
LABELS = ("one",)
RANGE = (0, 1)
MIN_CLASSES = 6


def compute(predictions: Predictions) -> float | None:
    (rank,) = predictions.require("rank")
    return float(np.mean(rank < 5)) if len(rank) else None
