"""Canonical parameters of toy_net."""

import math

from howmanygpus.measure.models.initialization import Draw, he_normal


def parameters(image_shape: tuple[int, int, int], num_classes: int) -> dict[str, Draw]:
    """image_shape: (height, width, channels)."""
    return {"dense.kernel": he_normal(math.prod(image_shape), num_classes)}
