"""Declares pooling over the whole image."""

from howmanygpus.measure.models.layout import Layer, Shape


class GlobalAveragePool(Layer):
    """Returns the mean of each channel."""

    FUNCTION = "global_average_pool"

    def infer(self, shape: Shape) -> Shape:
        return shape[2:]
