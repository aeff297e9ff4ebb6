"""Mean rank of the true label."""

import numpy as np

from howmanygpus.report.predictions import Predictions

NAME = "mean rank"
UNIT, BETTER = "rank", "lower"
LABELS = ("one",)


def compute(predictions: Predictions) -> float | None:
    (rank,) = predictions.require("rank")
    return float(np.mean(rank)) if len(rank) else None
