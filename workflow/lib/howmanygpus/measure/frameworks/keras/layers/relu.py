"""ReLU of the Keras family."""

from keras import KerasTensor, ops


def relu(x: KerasTensor) -> KerasTensor:
    return ops.relu(x)
