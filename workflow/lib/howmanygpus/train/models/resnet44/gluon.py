"""ResNet-44 for the MXNet Gluon family."""

from mxnet.gluon import nn

from howmanygpus.train.models.resnet44.layers import create_layers
from howmanygpus.train.models.resnet44.parameters import blocks


class ResNet44(nn.HybridBlock):
    def __init__(self, in_channels: int, num_classes: int, layers):
        super().__init__()
        with self.name_scope():
            for name, layer in create_layers(layers, in_channels, num_classes):
                setattr(self, name, layer)

    def _conv_bn(self, x, prefix: str, index: int):
        return getattr(self, f"{prefix}_bn{index}")(getattr(self, f"{prefix}_conv{index}")(x))

    def hybrid_forward(self, F, x):
        x = F.relu(self.stem_bn(self.stem_conv(x)))
        for name, _, stride in blocks():
            shortcut = x
            if stride > 1:
                every = (None, None, None, None)
                shortcut = F.slice(x, begin=every, end=every, step=(1, 1, stride, stride))
                # The new channels, as many as there are, are zero; MXNet cannot pad this axis.
                shortcut = F.concat(shortcut, F.zeros_like(shortcut), dim=1)
            x = F.relu(self._conv_bn(x, name, 1))
            x = F.relu(self._conv_bn(x, name, 2) + shortcut)
        return self.dense(F.mean(x, axis=(2, 3)))


def build(image_shape: tuple[int, int, int], num_classes: int, layers) -> nn.HybridBlock:
    """A block from normalised images (batch, channels, height, width) to logits (batch, num_classes)."""
    return ResNet44(image_shape[2], num_classes, layers)
