"""Checks of the logits and arrays of a user's own model, shared by the families."""

import numpy as np

from howmanygpus.measure.models.own import OwnModelError


def check_logits(path: str, logits: np.ndarray, num_classes: int) -> None:
    """Raise OwnModelError unless these are logits of two images."""
    expected = (2, num_classes)
    if logits.shape != expected or not np.issubdtype(logits.dtype, np.floating):
        found = f"{logits.shape} of {logits.dtype}"
        raise OwnModelError(f"{path}: the model returned {found} for 2 images; return float logits {expected}")
    if not np.isfinite(logits).all():
        raise OwnModelError(f"{path}: the model returned logits that are not finite; correct its initial weights")


def check_repeats(path: str, first: np.ndarray, again: np.ndarray) -> None:
    if not np.array_equal(first, again):
        problem = "the model in evaluation returns other logits for the same images"
        raise OwnModelError(f"{path}: {problem}; draw random numbers only in training")


def check_same_model(path: str, first: dict, again: dict) -> None:
    """Raise OwnModelError unless two calls of build made the same arrays. first, again: the arrays of each call."""
    if {name: each.shape for name, each in first.items()} != {name: each.shape for name, each in again.items()}:
        raise OwnModelError(f"{path}: build returned another model when called again; build the same one every time")


def draw_images(image_shape: tuple[int, int, int]) -> np.ndarray:
    """Return two normalised images (2, height, width, channels)."""
    return np.random.default_rng(0).standard_normal((2, *image_shape)).astype(np.float32)
