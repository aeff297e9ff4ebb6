"""ResNet-18 for the MXNet Gluon family."""

from mxnet.gluon import nn

from howmanygpus.measure.frameworks.gluon.layers.context import LayerContext
from howmanygpus.measure.models.residual.gluon import ResidualNetwork
from howmanygpus.measure.models.resnet18.parameters import lay_out


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options) -> nn.HybridBlock:
    """Return a block from normalised images (batch, channels, height, width) to logits. options: see parameters.py."""
    return ResidualNetwork(context, lay_out(image_shape[2], **options), num_classes)
