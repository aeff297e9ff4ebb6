"""The loss of a step, from logits and the targets of measure.loop.targets."""

import keras
from keras import ops

from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.spec import RunSpec


class SigmoidLoss(keras.losses.Loss):
    """Weighted sigmoid cross-entropy of an image's labels. Keras's own has one weight for all labels of an image."""

    def call(self, targets, logits):
        present = ops.cast(targets > 0, logits.dtype)
        return ops.sum(ops.abs(targets) * ops.binary_crossentropy(present, logits, from_logits=True), axis=-1)


class SmoothedLoss(keras.losses.Loss):
    """Softmax cross-entropy with smoothed labels. Keras smooths labels only if they are one-hot."""

    def __init__(self, smoothing: float, **options):
        super().__init__(**options)
        self.smoothing = smoothing

    def call(self, labels, logits):
        one_hot = ops.one_hot(ops.cast(labels, "int32"), logits.shape[-1], dtype=logits.dtype)
        options = {"from_logits": True, "label_smoothing": self.smoothing}
        return keras.losses.categorical_crossentropy(one_hot, logits, **options)


def build_loss(spec: RunSpec, data: PreparedData, reduction: str = "sum_over_batch_size") -> keras.losses.Loss:
    """Return the loss of a step. reduction: over the images; the default is their mean."""
    if data.multi_label:
        return SigmoidLoss(reduction=reduction)
    if spec.label_smoothing:
        return SmoothedLoss(spec.label_smoothing, reduction=reduction)
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)


def add_penalties(loss, model: keras.Model, share: float = 1.0):
    """Return the loss with those of a user's layers, such as weight regularizers, which Model.fit adds by itself.

    Call it after the model, in its tape. share: factor on them, by which all replicas and parts of a batch together add
    them once.
    """
    return loss + share * sum(ops.cast(each, loss.dtype) for each in model.losses) if model.losses else loss
