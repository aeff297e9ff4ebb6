"""Fraction of test images whose true label has the highest score."""

import numpy as np

from howmanygpus.report.predictions import Predictions

NAME = "accuracy"
UNIT, BETTER = "fraction of test images", "higher"
LABELS = ("one",)
RANGE = (0, 1)


def compute(predictions: Predictions) -> float | None:
    (rank,) = predictions.require("rank")
    return float(np.mean(rank == 0)) if len(rank) else None
