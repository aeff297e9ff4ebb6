"""ReLU of the MXNet Gluon family."""

from howmanygpus.measure.frameworks.gluon.layers.operators import Tensor, operators_of


def relu(x: Tensor) -> Tensor:
    return operators_of(x).relu(x)
