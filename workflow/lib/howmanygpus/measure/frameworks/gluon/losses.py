"""The loss of a step, from logits and the targets of measure.loop.targets."""

from collections.abc import Callable

import mxnet as mx
from mxnet import gluon

from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.spec import RunSpec


def build_loss(spec: RunSpec, data: PreparedData) -> Callable[[mx.nd.NDArray, mx.nd.NDArray], mx.nd.NDArray]:
    """Return a function of logits and targets that returns the loss of each image."""
    if data.multi_label:
        # Gluon takes the mean over an image's labels; the weight makes it their sum.
        sigmoid = gluon.loss.SigmoidBinaryCrossEntropyLoss(weight=data.num_classes)
        return lambda logits, targets: sigmoid(logits, targets > 0, mx.nd.abs(targets))
    if not spec.label_smoothing:
        return gluon.loss.SoftmaxCrossEntropyLoss()
    softmax, off = gluon.loss.SoftmaxCrossEntropyLoss(sparse_label=False), spec.label_smoothing / data.num_classes
    values = {"on_value": 1.0 - spec.label_smoothing + off, "off_value": off}
    return lambda logits, labels: softmax(logits, mx.nd.one_hot(labels, data.num_classes, **values))
