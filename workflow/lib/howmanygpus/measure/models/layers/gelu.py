"""Declares GELU."""

from howmanygpus.measure.models.layout import Layer


class Gelu(Layer):
    """Exact, by the error function."""

    FUNCTION = "gelu"
