"""
The losses of the reference, written out with their gradients.

They share nothing with the frameworks' losses or with the code that prepares labels for them, so that a mistake there
is seen.
"""

import numpy as np

from howmanygpus.measure.input.prepared import MISSING


def softmax_cross_entropy(logits: np.ndarray, labels: np.ndarray, smoothing: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss of each image (count,) and its gradient by the logits (count, classes).

    The true class has the probability 1 - smoothing + smoothing / classes, every other class smoothing / classes.
    """
    num_classes = logits.shape[1]
    peak = logits.max(axis=1, keepdims=True)
    log_probability = logits - peak - np.log(np.exp(logits - peak).sum(axis=1, keepdims=True))
    target = np.full(logits.shape, smoothing / num_classes)
    target[np.arange(len(labels)), labels] += 1.0 - smoothing
    return -(target * log_probability).sum(axis=1), np.exp(log_probability) - target


def sigmoid_cross_entropy(logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss of each label and its gradient, both (count, classes) and 0 where the label is missing."""
    known, probability = labels != MISSING, 1.0 / (1.0 + np.exp(-logits))
    loss = np.logaddexp(0.0, logits) - (labels == 1) * logits
    return known * loss, known * (probability - (labels == 1))


def count_terms(labels: np.ndarray) -> int:
    """Return the number of losses whose mean is the loss of a global batch: one per image, or per known label."""
    return int((labels != MISSING).sum()) if labels.ndim == 2 else len(labels)
