"""small_cnn for the Keras family."""

from keras import KerasTensor

from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.frameworks.keras.layers.conv import conv
from howmanygpus.measure.frameworks.keras.layers.dense import dense
from howmanygpus.measure.frameworks.keras.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.keras.layers.relu import relu
from howmanygpus.measure.models.small_cnn.parameters import CONVOLUTIONS


def build(x: KerasTensor, num_classes: int, context: LayerContext) -> KerasTensor:
    """Map normalised images (batch, height, width, channels) to logits (batch, num_classes)."""
    for name, width, stride in CONVOLUTIONS:
        x = relu(conv(context, x, name, width, 3, stride=stride, padding=1, use_bias=True))
    return dense(context, global_average_pool(x), "dense", num_classes)
