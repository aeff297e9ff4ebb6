"""Declares ReLU."""

from howmanygpus.measure.models.layout import Layer


class Relu(Layer):
    FUNCTION = "relu"
