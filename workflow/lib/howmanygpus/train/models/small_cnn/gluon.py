"""small_cnn for the MXNet Gluon family."""

from mxnet.gluon import nn

from howmanygpus.train.models.small_cnn.parameters import CONVOLUTIONS


class SmallCnn(nn.HybridBlock):
    def __init__(self, in_channels: int, num_classes: int, layers):
        super().__init__()
        with self.name_scope():
            for name, width, stride in CONVOLUTIONS:
                setattr(self, name, layers.conv3x3(in_channels, width, stride, use_bias=True))
                in_channels = width
            self.dense = layers.dense(in_channels, num_classes)

    def hybrid_forward(self, F, x):
        for name, _, _ in CONVOLUTIONS:
            x = F.relu(getattr(self, name)(x))
        return self.dense(F.mean(x, axis=(2, 3)))


def build(image_shape: tuple[int, int, int], num_classes: int, layers) -> nn.HybridBlock:
    """A block from normalised images (batch, channels, height, width) to logits (batch, num_classes)."""
    return SmallCnn(image_shape[2], num_classes, layers)
