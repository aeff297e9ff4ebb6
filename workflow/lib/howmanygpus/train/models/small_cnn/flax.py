"""small_cnn for the JAX family."""

from flax import nnx

from howmanygpus.train.models.small_cnn.parameters import CONVOLUTIONS


class SmallCnn(nnx.Module):
    def __init__(self, in_channels: int, num_classes: int, layers):
        for name, width, stride in CONVOLUTIONS:
            setattr(self, name, layers.conv3x3(in_channels, width, stride, use_bias=True))
            in_channels = width
        self.dense = layers.dense(in_channels, num_classes)

    def __call__(self, x):
        for name, _, _ in CONVOLUTIONS:
            x = nnx.relu(getattr(self, name)(x))
        return self.dense(x.mean(axis=(1, 2)))


def build(image_shape: tuple[int, int, int], num_classes: int, layers) -> nnx.Module:
    """A module from normalised images (batch, height, width, channels) to logits (batch, num_classes)."""
    return SmallCnn(image_shape[2], num_classes, layers)
