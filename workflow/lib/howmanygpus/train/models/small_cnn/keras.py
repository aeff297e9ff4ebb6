"""small_cnn for the Keras family."""

from keras import ops

from howmanygpus.train.models.small_cnn.parameters import CONVOLUTIONS


def build(x, num_classes: int, layers):
    """From normalised images (batch, height, width, channels) to logits (batch, num_classes)."""
    for name, width, stride in CONVOLUTIONS:
        x = ops.relu(layers.conv3x3(x, name, width, stride, use_bias=True))
    return layers.dense(ops.mean(x, axis=(1, 2)), "dense", num_classes)
