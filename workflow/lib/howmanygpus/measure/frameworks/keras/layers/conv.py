"""Convolution of the Keras family."""

from keras import KerasTensor, layers

from howmanygpus.measure.frameworks.geometry import Padding, Size, as_pair, as_sides, as_symmetric
from howmanygpus.measure.frameworks.keras.layers.context import LayerContext


def conv(
    context: LayerContext,
    x: KerasTensor,
    name: str,
    out_channels: int,
    kernel: Size,
    *,
    stride: int,
    padding: Padding,
    groups: int = 1,
    use_bias: bool,
) -> KerasTensor:
    """Convolve, padding with zeros.

    Keras's own `same` pads strided convolutions unevenly, so it is used only where it is what was asked for.
    """
    height, width = as_pair(kernel)
    is_same = stride == 1 and height % 2 == width % 2 == 1 and as_symmetric(padding) == (height // 2, width // 2)
    if not is_same and padding != 0:
        x = layers.ZeroPadding2D(as_sides(padding), data_format="channels_last")(x)
    return layers.Conv2D(
        out_channels,
        (height, width),
        strides=stride,
        padding="same" if is_same else "valid",
        data_format="channels_last",
        groups=groups,
        use_bias=use_bias,
        name=name,
    )(x)
