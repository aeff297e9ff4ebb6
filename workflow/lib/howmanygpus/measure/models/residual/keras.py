"""Residual networks for the Keras family."""

from keras import KerasTensor

from howmanygpus.measure.frameworks.keras.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.frameworks.keras.layers.conv import conv
from howmanygpus.measure.frameworks.keras.layers.dense import dense
from howmanygpus.measure.frameworks.keras.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.keras.layers.pooling import max_pool
from howmanygpus.measure.frameworks.keras.layers.relu import relu
from howmanygpus.measure.models.residual.layout import BATCHNORM, POOLING, Convolution, Layout


def apply_residual_network(x: KerasTensor, context: LayerContext, layout: Layout, num_classes: int) -> KerasTensor:
    """Map normalised images (batch, height, width, channels) to logits (batch, num_classes)."""

    def conv_bn(x: KerasTensor, convolution: Convolution) -> KerasTensor:
        name, bn_name, _, out_channels, kernel, stride = convolution
        x = conv(context, x, name, out_channels, kernel, stride=stride, padding=convolution.padding, use_bias=False)
        return batchnorm(context, x, bn_name, **BATCHNORM)

    x = max_pool(relu(conv_bn(x, layout.stem)), 3, **POOLING)
    for convolutions, shortcut in layout.blocks:
        skipped = conv_bn(x, shortcut) if shortcut else x
        for convolution in convolutions[:-1]:
            x = relu(conv_bn(x, convolution))
        x = relu(conv_bn(x, convolutions[-1]) + skipped)
    return dense(context, global_average_pool(x), "dense", num_classes)
