"""Images as sequences of tokens for the Keras family."""

from keras import KerasTensor, layers, ops

from howmanygpus.measure.frameworks.keras.layers.context import LayerContext


class Tokens(layers.Layer):
    def build(self, input_shape: tuple) -> None:
        _, height, width, channels = input_shape
        self.token = self.add_weight(name="token", shape=(1, 1, channels))
        self.position = self.add_weight(name="position", shape=(1, 1 + height * width, channels))

    def call(self, x):
        pixels = ops.reshape(x, (-1, x.shape[1] * x.shape[2], x.shape[3]))
        # One token for every image; the size of the batch is not known here.
        token = ops.zeros_like(pixels[:, :1]) + self.token
        return ops.concatenate([token, pixels], axis=1) + self.position


def tokens(context: LayerContext, x: KerasTensor, name: str) -> KerasTensor:
    """Map images (batch, height, width, channels) to (batch, 1 + height * width, channels).

    The class token comes first, then the pixels row by row. A learned position embedding is added to each.
    """
    return Tokens(name=name)(x)


def class_token(x: KerasTensor) -> KerasTensor:
    """Return the first token: (batch, width)."""
    return x[:, 0]
