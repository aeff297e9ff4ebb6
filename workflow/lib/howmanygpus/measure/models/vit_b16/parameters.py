"""Options, layers and canonical parameters of ViT-B/16."""

import math
from dataclasses import dataclass

import numpy as np

from howmanygpus.measure.models.initialization import Draw, constant
from howmanygpus.measure.models.options import fill_options, integer

OPTIONS = {
    "patch": integer("Height and width of a patch, in pixels.", 1, 64, default=16),
    "depth": integer("Number of blocks.", 1, 100, default=12),
    "heads": integer("Heads of the attention.", 1, 64, default=12),
    "head_width": integer("Units of each head; a token has as many as all heads together.", 1, 256, default=64),
    "mlp": integer("Units between the two dense layers of a block.", 1, 16384, default=3072),
}
LAYERNORM = {"epsilon": 1e-6}
POSITION_DEVIATION = 0.02


@dataclass(frozen=True)
class Layout:
    """Layers of the network. width: units of a token. num_patches: patches of an image. blocks: names of the blocks."""

    patch: int
    width: int
    heads: int
    mlp: int
    num_patches: int
    blocks: tuple[str, ...]

    @property
    def dense(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of the dense layers of all blocks, by name."""
        sizes = {"qkv": (self.width, 3 * self.width), "out": (self.width, self.width)}
        sizes |= {"mlp1": (self.width, self.mlp), "mlp2": (self.mlp, self.width)}
        return {f"{block}_{name}": size for block in self.blocks for name, size in sizes.items()}

    @property
    def norms(self) -> list[str]:
        """Every layer normalisation, in order."""
        return [*(f"{block}_{name}" for block in self.blocks for name in ("norm1", "norm2")), "norm"]


def lay_out(image_shape: tuple[int, int, int], **options) -> Layout:
    """Lay out the network. image_shape: (height, width, channels)."""
    chosen, (height, width, _) = fill_options(OPTIONS, options), image_shape
    patch, heads = chosen["patch"], chosen["heads"]
    blocks = tuple(f"block{number}" for number in range(1, chosen["depth"] + 1))
    num_patches = (height // patch) * (width // patch)
    return Layout(patch, heads * chosen["head_width"], heads, chosen["mlp"], num_patches, blocks)


def normal(deviation: float, *shape: int) -> Draw:
    return lambda generator: (generator.standard_normal(shape) * deviation).astype(np.float32)


def parameters(image_shape: tuple[int, int, int], num_classes: int, **options) -> dict[str, Draw]:
    """Return the initial draw of every array, by its canonical name. image_shape: (height, width, channels).

    The variance of a dense kernel is that of Glorot & Bengio 2010, as in torchvision, which draws it uniformly, adds
    noise of 1e-6 to biases and sets the last kernel to zero. Here all are normal, and biases zero.
    """
    layout, channels = lay_out(image_shape, **options), image_shape[2]
    patch, width = layout.patch, layout.width
    draws = {
        "patches.kernel": normal(math.sqrt(1 / (patch * patch * channels)), patch, patch, channels, width),
        "patches.bias": constant(0.0, width),
        "tokens.token": constant(0.0, 1, 1, width),
        "tokens.position": normal(POSITION_DEVIATION, 1, 1 + layout.num_patches, width),
    }
    for name, (inputs, outputs) in (layout.dense | {"dense": (width, num_classes)}).items():
        draws[f"{name}.kernel"] = normal(math.sqrt(2 / (inputs + outputs)), inputs, outputs)
        draws[f"{name}.bias"] = constant(0.0, outputs)
    for name in layout.norms:
        draws |= {f"{name}.scale": constant(1.0, width), f"{name}.offset": constant(0.0, width)}
    return draws


def smallest_map(size: int, **options) -> int:
    """Return the number of patches in a column or row. size: height or width of the network's images."""
    return size // fill_options(OPTIONS, options)["patch"]
