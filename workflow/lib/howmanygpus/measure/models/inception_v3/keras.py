"""Inception v3 for the Keras family."""

from functools import reduce

from keras import KerasTensor

from howmanygpus.measure.frameworks.keras.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.keras.layers.concatenation import concatenate
from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.frameworks.keras.layers.conv import conv
from howmanygpus.measure.frameworks.keras.layers.dense import dense
from howmanygpus.measure.frameworks.keras.layers.dropout import dropout, image_keys
from howmanygpus.measure.frameworks.keras.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.keras.layers.pooling import average_pool, max_pool
from howmanygpus.measure.frameworks.keras.layers.relu import relu
from howmanygpus.measure.models.inception_v3.layout import BATCHNORM, Convolution, Split, Step, lay_out
from howmanygpus.measure.models.inception_v3.parameters import OPTIONS


def build(x: KerasTensor, num_classes: int, context: LayerContext, **options) -> KerasTensor:
    """Map normalised images (batch, height, width, channels) to logits. options: see parameters.py."""

    def take(x: KerasTensor, step: Step) -> KerasTensor:
        if isinstance(step, Split):
            return concatenate([take(x, each) for each in step.convolutions])
        if isinstance(step, Convolution):
            sizes, stride = (step.out_channels, step.kernel), step.stride
            x = conv(context, x, step.name, *sizes, stride=stride, padding=step.padding, use_bias=False)
            return relu(batchnorm(context, x, step.batchnorm, **BATCHNORM))
        pool = max_pool if step.takes_maximum else average_pool
        return pool(x, 3, stride=step.stride, padding=step.padding)

    layout = lay_out(x.shape[-1], OPTIONS, options)
    for branches in layout.blocks:
        outputs = [reduce(take, branch, x) for branch in branches]
        x = concatenate(outputs) if len(outputs) > 1 else outputs[0]
    x = dropout(context, global_average_pool(x), "dropout", image_keys(context), rate=layout.rate)
    return dense(context, x, "dense", num_classes)
