"""ResNet-44 for the JAX family."""

import jax.numpy as jnp
from flax import nnx

from howmanygpus.train.models.resnet44.layers import create_layers
from howmanygpus.train.models.resnet44.parameters import blocks


class ResNet44(nnx.Module):
    def __init__(self, in_channels: int, num_classes: int, layers):
        for name, layer in create_layers(layers, in_channels, num_classes):
            setattr(self, name, layer)

    def _conv_bn(self, x, prefix: str, index: int):
        return getattr(self, f"{prefix}_bn{index}")(getattr(self, f"{prefix}_conv{index}")(x))

    def __call__(self, x):
        x = nnx.relu(self.stem_bn(self.stem_conv(x)))
        for name, width, stride in blocks():
            shortcut = x
            if stride > 1:
                new_channels = width - x.shape[-1]
                shortcut = jnp.pad(x[:, ::stride, ::stride], ((0, 0), (0, 0), (0, 0), (0, new_channels)))
            x = nnx.relu(self._conv_bn(x, name, 1))
            x = nnx.relu(self._conv_bn(x, name, 2) + shortcut)
        return self.dense(x.mean(axis=(1, 2)))


def build(image_shape: tuple[int, int, int], num_classes: int, layers) -> nnx.Module:
    """A module from normalised images (batch, height, width, channels) to logits (batch, num_classes)."""
    return ResNet44(image_shape[2], num_classes, layers)
