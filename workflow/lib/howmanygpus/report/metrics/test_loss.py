"""Mean cross-entropy of the test images."""

import numpy as np

UNIT, BETTER = "nats per image", "lower"
RANGE = (0, None)


def compute(rank: np.ndarray, loss: np.ndarray) -> float | None:
    """rank: (images,); loss: (images,), nan if a logit of the image was not finite."""
    return float(np.mean(loss)) if len(loss) and np.isfinite(loss).all() else None
