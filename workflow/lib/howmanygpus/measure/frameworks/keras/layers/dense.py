"""Fully connected layer of the Keras family, with a bias."""

from keras import KerasTensor, layers

from howmanygpus.measure.frameworks.keras.layers.context import LayerContext


def dense(context: LayerContext, x: KerasTensor, name: str, out_features: int) -> KerasTensor:
    """Apply a dense layer to the last axis."""
    return layers.Dense(out_features, use_bias=True, name=name)(x)
