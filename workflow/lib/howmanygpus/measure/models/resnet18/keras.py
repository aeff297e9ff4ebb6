"""ResNet-18 for the Keras family."""

from keras import KerasTensor

from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.models.residual.keras import apply_residual_network
from howmanygpus.measure.models.resnet18.parameters import lay_out


def build(x: KerasTensor, num_classes: int, context: LayerContext, **options) -> KerasTensor:
    """Map normalised images (batch, height, width, channels) to logits. options: see parameters.py."""
    return apply_residual_network(x, context, lay_out(x.shape[-1], **options), num_classes)
