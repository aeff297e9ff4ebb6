"""ResNet-50 for the Chainer family."""

import chainer

from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext
from howmanygpus.measure.models.residual.chainer import ResidualNetwork
from howmanygpus.measure.models.resnet50.parameters import lay_out


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options) -> chainer.Chain:
    """Return a chain from normalised images (batch, channels, height, width) to logits. options: see parameters.py."""
    return ResidualNetwork(context, lay_out(image_shape[2], **options), num_classes)
