"""Mean cross-entropy of the test images."""

import numpy as np

UNIT, BETTER = "nats per image", "lower"


def compute(rank: np.ndarray, loss: np.ndarray) -> float | None:
    """loss: (images,), nan where a logit was not finite."""
    return float(np.mean(loss)) if len(loss) and np.isfinite(loss).all() else None
