"""ResNet-18 for the JAX family."""

from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import LayerContext
from howmanygpus.measure.models.residual.flax import ResidualNetwork
from howmanygpus.measure.models.resnet18.parameters import lay_out


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options) -> nnx.Module:
    """Return a module from normalised images (batch, height, width, channels) to logits. options: see parameters.py."""
    return ResidualNetwork(context, lay_out(image_shape[2], **options), num_classes)
