"""ResNet-44 for the Keras family."""

from keras import layers, ops

from trainbench.families.keras import conv3x3
from trainbench.models.resnet44.parameters import BATCHNORM_EPSILON, BATCHNORM_MOMENTUM, WIDTHS, blocks


class ZeroPaddedShortcut(layers.Layer):
    """Take every `stride`-th pixel and append zero channels up to `channels`."""

    def __init__(self, channels: int, stride: int, **kwargs):
        super().__init__(**kwargs)
        self.channels, self.stride = channels, stride

    def call(self, x):
        missing = self.channels - x.shape[-1]
        return ops.pad(x[:, :: self.stride, :: self.stride, :], ((0, 0), (0, 0), (0, 0), (0, missing)))

    def compute_output_shape(self, shape):
        return (shape[0], -(-shape[1] // self.stride), -(-shape[2] // self.stride), self.channels)


def conv_bn(x, prefix: str, suffix: str, width: int, stride: int):
    x = conv3x3(x, f"{prefix}_conv{suffix}", width, stride, use_bias=False)
    return layers.BatchNormalization(
        epsilon=BATCHNORM_EPSILON, momentum=BATCHNORM_MOMENTUM, name=f"{prefix}_bn{suffix}"
    )(x)


def build(x, num_classes: int):
    """From normalised images (batch, height, width, channels) to logits (batch, num_classes)."""
    x = layers.ReLU()(conv_bn(x, "stem", "", WIDTHS[0], stride=1))
    for name, width, stride in blocks():
        shortcut = x if stride == 1 else ZeroPaddedShortcut(width, stride)(x)
        x = layers.ReLU()(conv_bn(x, name, "1", width, stride))
        x = layers.ReLU()(layers.Add()([conv_bn(x, name, "2", width, stride=1), shortcut]))
    x = layers.GlobalAveragePooling2D()(x)
    return layers.Dense(num_classes, name="dense")(x)
