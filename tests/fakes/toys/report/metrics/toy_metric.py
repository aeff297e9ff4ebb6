"""Mean rank of the true label."""

import numpy as np

UNIT, BETTER = "rank", "lower"


def compute(rank: np.ndarray, loss: np.ndarray) -> float | None:
    """rank: (images,), 0 if the prediction is right."""
    return float(np.mean(rank)) if len(rank) else None
