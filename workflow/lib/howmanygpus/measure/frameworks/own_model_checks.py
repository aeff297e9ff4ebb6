"""Checks of the logits and arrays of a user's own model, shared by the families."""

from collections.abc import Callable

import numpy as np

from howmanygpus.measure.models.own import OwnModelError

REDUCED = {"bf16": "bfloat16", "fp16": "float16"}
"""Format of the computations in a mixed precision."""
SCALES = (1.0, -1.0, 10.0, -10.0, 100.0, -100.0)
"""Factors on images: a softmax or a sigmoid keeps its range for all, logits do not."""
NUM_REPEATS = 20
"""Calls that are compared if the model moves a generator, because what it draws may seldom matter."""
SAME = 1e-4
"""Largest relative difference of outputs of one network in one process, whose sums may be added in another order."""


def check_logits(path: str, logits: np.ndarray, num_classes: int) -> None:
    """Raise OwnModelError unless these are logits of two images."""
    expected = (2, num_classes)
    if logits.shape != expected or not np.issubdtype(logits.dtype, np.floating):
        found = f"{logits.shape} of {logits.dtype}"
        raise OwnModelError(f"{path}: the model returned {found} for 2 images; return float logits {expected}")
    if not np.isfinite(logits).all():
        raise OwnModelError(f"{path}: the model returned logits that are not finite; correct its initial weights")


def check_evaluation(
    path: str, predict: Callable[[float], np.ndarray], read_states: Callable[[], object]
) -> np.ndarray:
    """Raise OwnModelError if evaluation draws random numbers or ends in a softmax or a sigmoid; return the logits.

    predict: computes the logits of two images that are multiplied by its argument. read_states: returns the states of
    the generators from which the model may draw.
    """
    before, first = read_states(), predict(1.0)
    again = [predict(1.0) for _ in range(1 if read_states() == before else NUM_REPEATS)]
    if not all(np.array_equal(first, each) for each in again):
        problem = "the model in evaluation returns other logits for the same images"
        raise OwnModelError(f"{path}: {problem}; draw random numbers only in training")
    check_range(path, np.stack([predict(scale) for scale in SCALES]))
    return first


def check_range(path: str, outputs: np.ndarray) -> None:
    """Raise OwnModelError if outputs (..., classes) of very different images are probabilities, and not logits."""
    if not ((outputs >= 0) & (outputs <= 1)).all():
        return
    if outputs.shape[-1] > 1 and np.allclose(outputs.sum(axis=-1), 1, atol=1e-3):
        problem = "the model returns numbers from 0 to 1 whose sum is 1 for every image, as a softmax does"
        raise OwnModelError(f"{path}: {problem}; leave it out and return logits, because the loss has a softmax")
    if np.ptp(outputs) > 0:
        problem = "the model returns numbers from 0 to 1 for every image, as a sigmoid does"
        raise OwnModelError(f"{path}: {problem}; leave it out and return logits")


def check_same_model(path: str, first: dict, again: dict) -> None:
    """Raise OwnModelError unless two calls of build made the same arrays. first, again: the arrays of each call."""
    if {name: each.shape for name, each in first.items()} != {name: each.shape for name, each in again.items()}:
        raise OwnModelError(f"{path}: build returned another model when called again; build the same one every time")


def check_same_network(path: str, mode: str, first: np.ndarray, again: np.ndarray) -> None:
    """Raise OwnModelError unless two models from build compute the same from the same weights.

    mode: `evaluation` or `training`. first, again: the outputs of each.
    """
    if np.abs(first - again).max() > SAME * max(np.abs(first).max(), 1e-6):
        problem = f"the models of two calls of build compute different outputs in {mode} from the same weights"
        remedy = "draw in build only with the framework's generator, numpy.random or random, which have the run's seed"
        raise OwnModelError(f"{path}: {problem}; {remedy}")


def draw_images(image_shape: tuple[int, int, int]) -> np.ndarray:
    """Return two normalised images (2, height, width, channels)."""
    return np.random.default_rng(0).standard_normal((2, *image_shape)).astype(np.float32)
