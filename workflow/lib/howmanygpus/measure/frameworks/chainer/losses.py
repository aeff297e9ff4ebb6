"""The loss of a step, from logits and the targets of measure.loop.targets."""

from collections.abc import Callable

import chainer
import chainer.functions as F
import numpy as np

from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.spec import RunSpec


def compute_sigmoid_loss(logits: chainer.Variable, targets) -> chainer.Variable:
    """Return the mean over the images of the weighted sigmoid cross-entropy of their labels."""
    present = (targets > 0).astype(np.int32)
    losses = F.sigmoid_cross_entropy(logits, present, normalize=False, reduce="no")
    return F.sum(losses * abs(targets)) / len(targets)


def build_loss(spec: RunSpec, data: PreparedData) -> Callable[..., chainer.Variable]:
    """Return a function of logits and targets, whose value is the mean over the images."""
    if data.multi_label:
        return compute_sigmoid_loss
    if not spec.label_smoothing:
        return F.softmax_cross_entropy

    def compute_smoothed_loss(logits: chainer.Variable, labels) -> chainer.Variable:
        smoothing = spec.label_smoothing
        uniform = -F.mean(F.log_softmax(logits))
        return (1.0 - smoothing) * F.softmax_cross_entropy(logits, labels) + smoothing * uniform

    return compute_smoothed_loss
