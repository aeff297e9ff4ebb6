"""Layer normalisation of the Keras family."""

from keras import KerasTensor, layers

from howmanygpus.measure.frameworks.keras.layers.context import LayerContext


def layernorm(context: LayerContext, x: KerasTensor, name: str, *, epsilon: float) -> KerasTensor:
    """Normalises the last axis by its mean and its biased variance."""
    return layers.LayerNormalization(axis=-1, epsilon=epsilon, center=True, scale=True, name=name)(x)
