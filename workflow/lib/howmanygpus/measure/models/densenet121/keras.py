"""DenseNet-121 for the Keras family."""

from keras import KerasTensor

from howmanygpus.measure.frameworks.keras.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.keras.layers.concatenation import concatenate
from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.frameworks.keras.layers.conv import conv
from howmanygpus.measure.frameworks.keras.layers.dense import dense
from howmanygpus.measure.frameworks.keras.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.keras.layers.pooling import average_pool, max_pool
from howmanygpus.measure.frameworks.keras.layers.relu import relu
from howmanygpus.measure.models.densenet121.parameters import (
    BATCHNORM,
    STEM_POOLING,
    TRANSITION_POOLING,
    Convolution,
    lay_out,
)


def build(x: KerasTensor, num_classes: int, context: LayerContext, **options) -> KerasTensor:
    """Map normalised images (batch, height, width, channels) to logits. options: see parameters.py."""

    def convolve(x: KerasTensor, each: Convolution) -> KerasTensor:
        strides = {"stride": each.stride, "padding": each.padding}
        return conv(context, x, each.name, each.out_channels, each.kernel, **strides, use_bias=False)

    def bn_relu(x: KerasTensor, name: str) -> KerasTensor:
        return relu(batchnorm(context, x, name, **BATCHNORM))

    layout = lay_out(x.shape[-1], **options)
    x = max_pool(bn_relu(convolve(x, layout.stem), layout.stem.batchnorm), 3, **STEM_POOLING)
    for layers, transition in layout.blocks:
        for layer in layers:
            new = x
            for convolution in layer:
                new = convolve(bn_relu(new, convolution.batchnorm), convolution)
            x = concatenate([x, new])
        if transition:
            x = average_pool(convolve(bn_relu(x, transition.batchnorm), transition), 2, **TRANSITION_POOLING)
    return dense(context, global_average_pool(bn_relu(x, "final_bn")), "dense", num_classes)
