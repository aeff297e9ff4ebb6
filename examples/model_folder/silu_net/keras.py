"""silu_net in Keras: the names of the layers are those of parameters.py."""

from keras import KerasTensor, activations

from howmanygpus.measure.frameworks.keras.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.frameworks.keras.layers.conv import conv
from howmanygpus.measure.frameworks.keras.layers.dense import dense
from howmanygpus.measure.frameworks.keras.layers.global_pooling import global_average_pool


def build(x: KerasTensor, num_classes: int, context: LayerContext, width: int) -> KerasTensor:
    """From normalised images (batch, height, width, channels) to logits (batch, num_classes)."""
    for name, stride in (("first", 1), ("second", 2)):
        x = conv(context, x, name, width, 3, stride=stride, padding=1, use_bias=False)
        x = activations.silu(batchnorm(context, x, f"{name}_norm", epsilon=1e-5, momentum=0.9))
    return dense(context, global_average_pool(x), "dense", num_classes)
