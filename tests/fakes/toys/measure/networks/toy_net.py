"""One dense layer."""

from howmanygpus.measure.models.layers.toy_dense import ToyDense
from howmanygpus.measure.models.layout import Layout


def lay_out(num_classes: int) -> Layout:
    return Layout(ToyDense("dense", num_classes))
