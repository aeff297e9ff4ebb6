"""ResNet-44 for the Chainer family."""

import chainer

from howmanygpus.measure.frameworks.chainer.layers.batchnorm import batchnorm
from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext
from howmanygpus.measure.frameworks.chainer.layers.conv import conv
from howmanygpus.measure.frameworks.chainer.layers.dense import dense
from howmanygpus.measure.frameworks.chainer.layers.global_pooling import global_average_pool
from howmanygpus.measure.frameworks.chainer.layers.relu import relu
from howmanygpus.measure.frameworks.chainer.layers.shortcut import shortcut
from howmanygpus.measure.models.resnet44.parameters import BATCHNORM, blocks, convolutions


class ResNet44(chainer.Chain):
    def __init__(self, context: LayerContext, image_channels: int, num_classes: int, **options):
        super().__init__()
        self._blocks = blocks(**options)
        with self.init_scope():
            for conv_name, batchnorm_name, in_channels, width, stride in convolutions(image_channels, **options):
                layer = conv(context, in_channels, width, 3, stride=stride, padding=1, use_bias=False)
                setattr(self, conv_name, layer)
                setattr(self, batchnorm_name, batchnorm(context, width, **BATCHNORM))
            self.dense = dense(context, width, num_classes)

    def _conv_bn(self, x: chainer.Variable, block: str, index: int) -> chainer.Variable:
        return getattr(self, f"{block}_bn{index}")(getattr(self, f"{block}_conv{index}")(x))

    def forward(self, x: chainer.Variable) -> chainer.Variable:
        x = relu(self.stem_bn(self.stem_conv(x)))
        for name, in_channels, width, stride in self._blocks:
            skipped = x if stride == 1 else shortcut(x, stride=stride, new_channels=width - in_channels)
            x = relu(self._conv_bn(x, name, 1))
            x = relu(self._conv_bn(x, name, 2) + skipped)
        return self.dense(global_average_pool(x))


def build(image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options) -> chainer.Chain:
    """Return a chain from normalised images (batch, channels, height, width) to logits. options: see parameters.py."""
    return ResNet44(context, image_shape[2], num_classes, **options)
