"""Canonical parameters of ResNet-44."""

from typing import NamedTuple

from howmanygpus.measure.models.initialization import Draw, batchnorm, constant, he_normal
from howmanygpus.measure.models.options import fill_options, integer

OPTIONS = {
    "blocks": integer("Residual blocks of each of the three stages; n blocks make 6 n + 2 layers.", 1, 200, default=7),
    "width": integer(
        "Channels of the first stage; each later stage has twice as many as the one before.", 1, 1024, default=16
    ),
}
STAGES = 3
BATCHNORM = {"epsilon": 1e-5, "momentum": 0.9}
"""momentum: weight of the old running statistic; PyTorch's `momentum` is one minus this."""


class Block(NamedTuple):
    """One residual block. stride: stride of its first convolution."""

    name: str
    in_channels: int
    out_channels: int
    stride: int


class Convolution(NamedTuple):
    """One convolution of 3 by 3 pixels, and the batch normalisation that follows it."""

    name: str
    batchnorm: str
    in_channels: int
    out_channels: int
    stride: int


def blocks(**options) -> list[Block]:
    """Every residual block, in order."""
    chosen = fill_options(OPTIONS, options)
    listed, in_channels = [], chosen["width"]
    for stage in range(STAGES):
        width = chosen["width"] * 2**stage
        for block in range(1, chosen["blocks"] + 1):
            stride = 2 if stage > 0 and block == 1 else 1
            listed.append(Block(f"stage{stage + 1}_block{block}", in_channels, width, stride))
            in_channels = width
    return listed


def convolutions(image_channels: int, **options) -> list[Convolution]:
    """Every convolution, in order."""
    listed = [Convolution("stem_conv", "stem_bn", image_channels, fill_options(OPTIONS, options)["width"], 1)]
    for name, in_channels, width, stride in blocks(**options):
        listed.append(Convolution(f"{name}_conv1", f"{name}_bn1", in_channels, width, stride))
        listed.append(Convolution(f"{name}_conv2", f"{name}_bn2", width, width, 1))
    return listed


def parameters(image_shape: tuple[int, int, int], num_classes: int, **options) -> dict[str, Draw]:
    """Return the initial draw of every array, by its canonical name. image_shape: (height, width, channels)."""
    draws: dict[str, Draw] = {}
    width = 0
    for name, batchnorm_name, in_channels, width, _ in convolutions(image_shape[2], **options):
        draws[f"{name}.kernel"] = he_normal(3, 3, in_channels, width)
        draws |= batchnorm(batchnorm_name, width)
    draws["dense.kernel"] = he_normal(width, num_classes)
    draws["dense.bias"] = constant(0.0, num_classes)
    return draws


def smallest_map(size: int, **options) -> int:
    """Return the height or width of the last stage's feature maps. size: height or width of the network's images."""
    return -(-size // 2 ** (STAGES - 1))
