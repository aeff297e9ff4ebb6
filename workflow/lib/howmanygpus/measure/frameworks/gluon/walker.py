"""Builds networks of the MXNet Gluon family."""

from mxnet.gluon import nn

from howmanygpus.measure.frameworks.forward_pass import resolve
from howmanygpus.measure.frameworks.gluon.layers.context import LayerContext
from howmanygpus.measure.frameworks.gluon.layers.operators import Tensor
from howmanygpus.measure.models.layout import Layout, load_function
from howmanygpus.measure.models.networks import find_build, lay_out


class LaidOutNetwork(nn.HybridBlock):
    """Maps normalised images (batch, channels, height, width) to logits (batch, num_classes).

    keys: keys of the images, by which units are dropped in training.
    """

    def __init__(self, layout: Layout, image_shape: tuple[int, int, int], context: LayerContext):
        super().__init__()
        with self.name_scope():
            for layer, shape in layout.list_layers(image_shape):
                function = load_function("gluon", layer)
                setattr(self, layer.name, function(context, **layer.sizes(shape), **layer.arguments))
                if layer.TAKES_KEYS and not hasattr(self, "image_keys"):
                    self.image_keys = load_function("gluon", layer, "image_keys")(context, image_shape)
        self._compute = resolve("gluon", layout.body)

    def hybrid_forward(self, F, x: Tensor, keys: Tensor | None = None) -> Tensor:
        return self._compute(self, x, keys)


def build(
    model: str, image_shape: tuple[int, int, int], num_classes: int, context: LayerContext, **options
) -> nn.HybridBlock:
    """Return a block from normalised images to logits (batch, num_classes). image_shape: (height, width, channels)."""
    if own := find_build(model, "gluon"):
        return own(image_shape, num_classes, context, **options)
    return LaidOutNetwork(lay_out(model, num_classes, **options), image_shape, context)
