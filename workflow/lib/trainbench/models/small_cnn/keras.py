"""small_cnn for the Keras family."""

from keras import layers

from trainbench.families.keras import conv3x3
from trainbench.models.small_cnn.parameters import CONVOLUTIONS


def build(x, num_classes: int):
    """From normalised images (batch, height, width, channels) to logits (batch, num_classes)."""
    for layer, width, stride in CONVOLUTIONS:
        x = conv3x3(x, layer, width, stride, use_bias=True)
        x = layers.ReLU()(x)
    x = layers.GlobalAveragePooling2D()(x)
    return layers.Dense(num_classes, name="dense")(x)
