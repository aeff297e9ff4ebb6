"""AlexNet for the Keras family."""

from keras import KerasTensor

from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.frameworks.keras.layers.conv import conv
from howmanygpus.measure.frameworks.keras.layers.dense import dense
from howmanygpus.measure.frameworks.keras.layers.dropout import dropout, image_keys
from howmanygpus.measure.frameworks.keras.layers.flatten import flatten
from howmanygpus.measure.frameworks.keras.layers.pooling import max_pool
from howmanygpus.measure.frameworks.keras.layers.relu import relu
from howmanygpus.measure.models.alexnet.parameters import POOLING, POOLING_SIZE, lay_out


def build(x: KerasTensor, num_classes: int, context: LayerContext, **options) -> KerasTensor:
    """Map normalised images (batch, height, width, channels) to logits. options: see parameters.py."""
    layout, keys = lay_out(tuple(x.shape[1:]), **options), image_keys(context)
    for each in layout.convolutions:
        strides = {"stride": each.stride, "padding": each.padding}
        x = relu(conv(context, x, each.name, each.out_channels, each.kernel, **strides, use_bias=True))
        x = max_pool(x, POOLING_SIZE, **POOLING) if each.pools else x
    x = flatten(x)
    for layer in layout.hidden:
        x = dropout(context, x, layer.dropout, keys, rate=layout.rate)
        x = relu(dense(context, x, layer.name, layer.out_features))
    return dense(context, x, "dense", num_classes)
