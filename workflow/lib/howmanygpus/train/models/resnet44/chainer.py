"""ResNet-44 for the Chainer family."""

import chainer
import chainer.functions as F

from howmanygpus.train.models.resnet44.layers import create_layers
from howmanygpus.train.models.resnet44.parameters import blocks


class ResNet44(chainer.Chain):
    def __init__(self, in_channels: int, num_classes: int, layers):
        super().__init__()
        with self.init_scope():
            for name, layer in create_layers(layers, in_channels, num_classes):
                setattr(self, name, layer)

    def _conv_bn(self, x, prefix: str, index: int):
        return getattr(self, f"{prefix}_bn{index}")(getattr(self, f"{prefix}_conv{index}")(x))

    def forward(self, x):
        x = F.relu(self.stem_bn(self.stem_conv(x)))
        for name, width, stride in blocks():
            shortcut = x
            if stride > 1:
                new_channels = width - x.shape[1]
                shortcut = F.pad(x[:, :, ::stride, ::stride], ((0, 0), (0, new_channels), (0, 0), (0, 0)), "constant")
            x = F.relu(self._conv_bn(x, name, 1))
            x = F.relu(self._conv_bn(x, name, 2) + shortcut)
        return self.dense(F.mean(x, axis=(2, 3)))


def build(image_shape: tuple[int, int, int], num_classes: int, layers) -> chainer.Chain:
    """A chain from normalised images (batch, channels, height, width) to logits (batch, num_classes)."""
    return ResNet44(image_shape[2], num_classes, layers)
