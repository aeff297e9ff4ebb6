"""small_cnn for the Chainer family."""

import chainer
import chainer.functions as F

from howmanygpus.train.models.small_cnn.parameters import CONVOLUTIONS


class SmallCnn(chainer.Chain):
    def __init__(self, in_channels: int, num_classes: int, layers):
        super().__init__()
        with self.init_scope():
            for name, width, stride in CONVOLUTIONS:
                setattr(self, name, layers.conv3x3(in_channels, width, stride, use_bias=True))
                in_channels = width
            self.dense = layers.dense(in_channels, num_classes)

    def forward(self, x):
        for name, _, _ in CONVOLUTIONS:
            x = F.relu(getattr(self, name)(x))
        return self.dense(F.mean(x, axis=(2, 3)))


def build(image_shape: tuple[int, int, int], num_classes: int, layers) -> chainer.Chain:
    """A chain from normalised images (batch, channels, height, width) to logits (batch, num_classes)."""
    return SmallCnn(image_shape[2], num_classes, layers)
