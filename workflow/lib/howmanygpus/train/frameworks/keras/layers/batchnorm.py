"""Batch normalisation of the Keras family."""

from keras import KerasTensor, layers

from howmanygpus.train.frameworks.keras.layers.context import LayerContext


def batchnorm(context: LayerContext, x: KerasTensor, name: str, *, epsilon: float, momentum: float) -> KerasTensor:
    """momentum: weight of the old running statistic."""
    synchronized = context.batchnorm == "synchronized"
    return layers.BatchNormalization(epsilon=epsilon, momentum=momentum, synchronized=synchronized, name=name)(x)
