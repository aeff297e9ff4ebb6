"""Builds networks of the Keras family."""

from keras import KerasTensor

from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.models.layout import Branches, Chain, Layer, NamedLayer, Node, Sum, load_function
from howmanygpus.measure.models.networks import find_build, lay_out


class Walker:
    """Applies the nodes of a layout to symbolic tensors. A functional model of Keras is what it recorded."""

    def __init__(self, context: LayerContext):
        self._context, self._keys = context, None

    def apply(self, node: Node, x: KerasTensor) -> KerasTensor:
        if isinstance(node, Chain):
            for part in node.parts:
                x = self.apply(part, x)
            return x
        if isinstance(node, Sum):
            skipped = self.apply(node.shortcut, x)
            return self.apply(node.body, x) + skipped
        if isinstance(node, Branches):
            return load_function("keras", node)([self.apply(branch, x) for branch in node.branches])
        assert isinstance(node, Layer)
        function = load_function("keras", node)
        if not isinstance(node, NamedLayer):
            return function(x, **node.arguments)
        keys = [self._make_keys(node)] if node.TAKES_KEYS else []
        return function(self._context, x, node.name, *keys, **node.arguments)

    def _make_keys(self, layer: NamedLayer) -> KerasTensor:
        """Return the keys of the images, which all layers share."""
        if self._keys is None:
            self._keys = load_function("keras", layer, "image_keys")(self._context)
        return self._keys


def build(model: str, x: KerasTensor, num_classes: int, context: LayerContext, **options) -> KerasTensor:
    """Map normalised images (batch, height, width, channels) to logits (batch, num_classes)."""
    if own := find_build(model, "keras"):
        return own(x, num_classes, context, **options)
    return Walker(context).apply(lay_out(model, num_classes, **options).body, x)
