"""Canonical arrays of silu_net: two 3x3 convolutions with BatchNorm and SiLU, pooling, and a dense layer."""

from howmanygpus.measure.models.initialization import Draw, batchnorm, constant, he_normal

OPTIONS = {"width": {"description": "Channels.", "type": "integer", "minimum": 1, "default": 16}}


def parameters(image_shape: tuple[int, int, int], num_classes: int, width: int) -> dict[str, Draw]:
    """image_shape: (height, width, channels). Kernels are (height, width, in, out) and (in, out)."""
    draws = {}
    for layer, channels in (("first", image_shape[2]), ("second", width)):
        draws[f"{layer}.kernel"] = he_normal(3, 3, channels, width)
        draws |= batchnorm(f"{layer}_norm", width)
    draws["dense.kernel"] = he_normal(width, num_classes)
    draws["dense.bias"] = constant(0.0, num_classes)
    return draws


def smallest_map(size: int, width: int) -> int:
    """Return the height of the images after the stride, or their width."""
    return (size + 1) // 2
