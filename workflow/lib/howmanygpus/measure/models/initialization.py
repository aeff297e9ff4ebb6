"""
Draws initial weights without any framework. They are stored once per model.

Layouts are canonical: convolution kernels (height, width, in, out), dense kernels (in, out). Names are
`<layer>.kernel`, `<layer>.bias`, for normalisation `<layer>.scale` and `.offset`, for BatchNorm also `.mean` and
`.variance`, and for sequences of tokens `<layer>.token` and `.position`.
"""

import math
import zlib
from collections.abc import Callable

import numpy as np

Draw = Callable[[np.random.Generator], np.ndarray]
ROLES = ("kernel", "bias", "scale", "offset", "mean", "variance", "token", "position")
"""Last part of an array's name."""


def he_normal(*shape: int) -> Draw:
    """Normal with variance 2 / fan_in (He et al. 2015, arXiv:1502.01852); fan_in: product of all axes but the last."""
    deviation = math.sqrt(2.0 / math.prod(shape[:-1]))
    return lambda generator: (generator.standard_normal(shape) * deviation).astype(np.float32)


def constant(value: float, *shape: int) -> Draw:
    return lambda generator: np.full(shape, value, dtype=np.float32)


def batchnorm(layer: str, channels: int) -> dict[str, Draw]:
    """Scale 1, offset 0, running mean 0, running variance 1."""
    return {
        f"{layer}.scale": constant(1.0, channels),
        f"{layer}.offset": constant(0.0, channels),
        f"{layer}.mean": constant(0.0, channels),
        f"{layer}.variance": constant(1.0, channels),
    }


def is_trainable(name: str) -> bool:
    """Whether an array is a parameter. Running statistics are state."""
    return not name.endswith((".mean", ".variance", ".state"))


def is_decayed(name: str, weight_decay_on: str) -> bool:
    """Whether weight decay applies to a parameter. `weights` leaves out biases, and scales and offsets of norms."""
    return weight_decay_on == "all" or not name.endswith((".bias", ".scale", ".offset", ".vector"))


def list_wrong_arrays(weights: dict[str, np.ndarray]) -> str:
    """Say which drawn arrays are not float32 or not finite; empty if all are."""
    for name, array in weights.items():
        if not isinstance(array, np.ndarray) or array.dtype != np.float32:
            return f"the draw of {name} returned {getattr(array, 'dtype', type(array).__name__)}"
        if not np.isfinite(array).all():
            return f"the draw of {name} returned numbers that are not finite"
    return ""


def draw_weights(draws: dict[str, Draw], seed: int) -> dict[str, np.ndarray]:
    """Draw every array from its own generator, keyed by (seed, name), so that the order does not matter."""
    return {
        name: draw(np.random.Generator(np.random.Philox(key=[seed, zlib.crc32(name.encode())])))
        for name, draw in draws.items()
    }
