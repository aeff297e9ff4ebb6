"""Builds networks of the Chainer family."""

from typing import Any

import chainer

from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext
from howmanygpus.measure.frameworks.forward_pass import resolve
from howmanygpus.measure.models.layout import Layout, load_function
from howmanygpus.measure.models.networks import find_build, lay_out


class LaidOutNetwork(chainer.Chain):
    """Maps normalised images (batch, channels, height, width) to logits (batch, num_classes).

    keys: keys of the images, by which units are dropped in training.
    """

    def __init__(self, layout: Layout, image_shape: tuple[int, int, int], context: LayerContext):
        super().__init__()
        with self.init_scope():
            for layer, shape in layout.list_layers(image_shape):
                function = load_function("chainer", layer)
                setattr(self, layer.name, function(context, **layer.sizes(shape), **layer.arguments))
                if layer.TAKES_KEYS and not hasattr(self, "image_keys"):
                    self.image_keys = load_function("chainer", layer, "image_keys")(context, image_shape)
        self._compute = resolve("chainer", layout.body)

    def forward(self, x: chainer.Variable, keys: Any = None) -> chainer.Variable:
        return self._compute(self, x, keys)


def build(
    model: str, image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options
) -> chainer.Chain:
    """Return a chain from normalised images to logits (batch, num_classes). image_shape: (height, width, channels)."""
    if own := find_build(model, "chainer"):
        return own(image_shape, num_classes, context, **options)
    return LaidOutNetwork(lay_out(model, num_classes, **options), image_shape, context)
