"""Canonical parameters of small_cnn."""

from howmanygpus.measure.models.initialization import Draw, constant, he_normal

CONVOLUTIONS = (("conv1", 32, 1), ("conv2", 64, 1), ("conv3", 64, 2))
"""(layer, output channels, stride)"""


def parameters(image_shape: tuple[int, int, int], num_classes: int) -> dict[str, Draw]:
    """Return the initial draw of every array, by its canonical name. image_shape: (height, width, channels)."""
    draws = {}
    channels = image_shape[2]
    for layer, width, _ in CONVOLUTIONS:
        draws[f"{layer}.kernel"] = he_normal(3, 3, channels, width)
        draws[f"{layer}.bias"] = constant(0.0, width)
        channels = width
    draws["dense.kernel"] = he_normal(channels, num_classes)
    draws["dense.bias"] = constant(0.0, num_classes)
    return draws
