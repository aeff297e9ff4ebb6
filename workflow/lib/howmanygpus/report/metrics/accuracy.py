"""Fraction of test images whose true label has the highest score."""

import numpy as np

UNIT, BETTER = "fraction of test images", "higher"
RANGE = (0, 1)


def compute(rank: np.ndarray, loss: np.ndarray) -> float | None:
    """rank: (images,), 0 if the prediction is right; loss: (images,)."""
    return float(np.mean(rank == 0)) if len(rank) else None
