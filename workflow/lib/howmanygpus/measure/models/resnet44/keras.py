"""ResNet-44 for the Keras family."""

from keras import KerasTensor

from howmanygpus.measure.frameworks.keras.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.frameworks.keras.layers.conv import conv
from howmanygpus.measure.frameworks.keras.layers.dense import dense
from howmanygpus.measure.frameworks.keras.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.keras.layers.relu import relu
from howmanygpus.measure.frameworks.keras.layers.shortcut import shortcut
from howmanygpus.measure.models.resnet44.parameters import BATCHNORM, blocks


def build(x: KerasTensor, num_classes: int, context: LayerContext, **options) -> KerasTensor:
    """Map normalised images (batch, height, width, channels) to logits. options: see parameters.py."""

    def conv_bn(x: KerasTensor, block: str, index: str, width: int, stride: int) -> KerasTensor:
        x = conv(context, x, f"{block}_conv{index}", width, 3, stride=stride, padding=1, use_bias=False)
        return batchnorm(context, x, f"{block}_bn{index}", **BATCHNORM)

    listed = blocks(**options)
    x = relu(conv_bn(x, "stem", "", listed[0].in_channels, stride=1))
    for name, in_channels, width, stride in listed:
        skipped = x if stride == 1 else shortcut(x, stride=stride, new_channels=width - in_channels)
        x = relu(conv_bn(x, name, "1", width, stride))
        x = relu(conv_bn(x, name, "2", width, stride=1) + skipped)
    return dense(context, global_average_pool(x), "dense", num_classes)
