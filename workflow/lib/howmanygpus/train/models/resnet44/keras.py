"""ResNet-44 for the Keras family."""

from keras import ops

from howmanygpus.train.models.resnet44.parameters import BATCHNORM_EPSILON, BATCHNORM_MOMENTUM, WIDTHS, blocks


def build(x, num_classes: int, layers):
    """From normalised images (batch, height, width, channels) to logits (batch, num_classes)."""

    def conv_bn(x, prefix: str, suffix: str, width: int, stride: int):
        x = layers.conv3x3(x, f"{prefix}_conv{suffix}", width, stride, use_bias=False)
        return layers.batchnorm(x, f"{prefix}_bn{suffix}", BATCHNORM_EPSILON, BATCHNORM_MOMENTUM)

    x = ops.relu(conv_bn(x, "stem", "", WIDTHS[0], stride=1))
    for name, width, stride in blocks():
        shortcut = x
        if stride > 1:
            new_channels = width - x.shape[-1]
            shortcut = ops.pad(x[:, ::stride, ::stride, :], ((0, 0), (0, 0), (0, 0), (0, new_channels)))
        x = ops.relu(conv_bn(x, name, "1", width, stride))
        x = ops.relu(conv_bn(x, name, "2", width, stride=1) + shortcut)
    return layers.dense(ops.mean(x, axis=(1, 2)), "dense", num_classes)
