"""Canonical parameters of ResNet-44."""

from typing import NamedTuple

from howmanygpus.train.models.initialization import Draw, batchnorm, constant, he_normal

WIDTHS = (16, 32, 64)
BLOCKS_PER_STAGE = 7
BATCHNORM = {"epsilon": 1e-5, "momentum": 0.9}
"""momentum: weight of the old running statistic; PyTorch's `momentum` is one minus this."""


class Block(NamedTuple):
    """One residual block. stride: of its first convolution."""

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


def blocks() -> list[Block]:
    """Every residual block, in order."""
    listed, in_channels = [], WIDTHS[0]
    for stage, width in enumerate(WIDTHS, start=1):
        for block in range(1, BLOCKS_PER_STAGE + 1):
            stride = 2 if stage > 1 and block == 1 else 1
            listed.append(Block(f"stage{stage}_block{block}", in_channels, width, stride))
            in_channels = width
    return listed


def convolutions(image_channels: int) -> list[Convolution]:
    """Every convolution, in order."""
    listed = [Convolution("stem_conv", "stem_bn", image_channels, WIDTHS[0], 1)]
    for name, in_channels, width, stride in blocks():
        listed.append(Convolution(f"{name}_conv1", f"{name}_bn1", in_channels, width, stride))
        listed.append(Convolution(f"{name}_conv2", f"{name}_bn2", width, width, 1))
    return listed


def parameters(image_shape: tuple[int, int, int], num_classes: int) -> dict[str, Draw]:
    """image_shape: (height, width, channels)."""
    draws: dict[str, Draw] = {}
    for name, batchnorm_name, in_channels, width, _ in convolutions(image_shape[2]):
        draws[f"{name}.kernel"] = he_normal(3, 3, in_channels, width)
        draws |= batchnorm(batchnorm_name, width)
    draws["dense.kernel"] = he_normal(WIDTHS[-1], num_classes)
    draws["dense.bias"] = constant(0.0, num_classes)
    return draws
