"""Layers of residual networks, in order, and their canonical parameters."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from howmanygpus.measure.models.initialization import Draw, batchnorm, constant, he_normal
from howmanygpus.measure.models.options import fill_options, integer

BATCHNORM = {"epsilon": 1e-5, "momentum": 0.9}
"""momentum: weight of the old running statistic; PyTorch's `momentum` is one minus this."""
POOLING = {"stride": 2, "padding": 1}
"""3x3 max pooling of the stem."""
EXPANSION = 4
"""Ratio of a bottleneck's output channels to those of its 3x3 convolution."""


class Convolution(NamedTuple):
    """One convolution, padded by half of its kernel, and the batch normalisation that follows it."""

    name: str
    batchnorm: str
    in_channels: int
    out_channels: int
    kernel: int
    stride: int

    @property
    def padding(self) -> int:
        return self.kernel // 2


class Block(NamedTuple):
    """One residual block. shortcut: None if the input is added as it is."""

    convolutions: tuple[Convolution, ...]
    shortcut: Convolution | None


@dataclass(frozen=True)
class Layout:
    """Layers of the network. out_channels: channels after the last block."""

    stem: Convolution
    blocks: tuple[Block, ...]
    out_channels: int

    @property
    def convolutions(self) -> Iterator[Convolution]:
        """Every convolution, in order."""
        yield self.stem
        for block in self.blocks:
            yield from block.convolutions
            if block.shortcut:
                yield block.shortcut


def make_options(blocks: list[int]) -> dict[str, dict]:
    """Return OPTIONS of a network. blocks: number of blocks in each stage."""
    return {
        "blocks": {
            "description": "Residual blocks of each stage. The number of entries is the number of stages.",
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": 200},
            "minItems": 1,
            "maxItems": 6,
            "default": blocks,
        },
        "width": integer(
            "Channels of the stem and of the first stage's 3x3 convolutions; they double at each stage.",
            1,
            1024,
            default=64,
        ),
    }


def list_basic(name: str, in_channels: int, width: int, stride: int) -> tuple[Convolution, ...]:
    """Lay out two 3x3 convolutions, the first with the stride."""
    return (
        Convolution(f"{name}_conv1", f"{name}_bn1", in_channels, width, 3, stride),
        Convolution(f"{name}_conv2", f"{name}_bn2", width, width, 3, 1),
    )


def list_bottleneck(name: str, in_channels: int, width: int, stride: int) -> tuple[Convolution, ...]:
    """Lay out a 1x1 convolution to fewer channels, a 3x3 one with the stride (v1.5), and a 1x1 one to more channels."""
    return (
        Convolution(f"{name}_conv1", f"{name}_bn1", in_channels, width, 1, 1),
        Convolution(f"{name}_conv2", f"{name}_bn2", width, width, 3, stride),
        Convolution(f"{name}_conv3", f"{name}_bn3", width, EXPANSION * width, 1, 1),
    )


def make_layout(
    list_block: Callable[[str, int, int, int], tuple[Convolution, ...]],
    rules: dict[str, dict],
    image_channels: int,
    given: dict[str, Any],
) -> Layout:
    """Lay out a network. list_block: one of the functions above; rules: OPTIONS; given: options of the study."""
    options = fill_options(rules, given)
    in_channels, blocks = options["width"], []
    for stage, num_blocks in enumerate(options["blocks"]):
        for index in range(num_blocks):
            name, stride = f"stage{stage + 1}_block{index + 1}", 2 if stage > 0 and index == 0 else 1
            convolutions = list_block(name, in_channels, options["width"] * 2**stage, stride)
            out_channels, shortcut = convolutions[-1].out_channels, None
            if stride != 1 or in_channels != out_channels:
                names = (f"{name}_shortcut_conv", f"{name}_shortcut_bn")
                shortcut = Convolution(*names, in_channels, out_channels, 1, stride)
            blocks.append(Block(convolutions, shortcut))
            in_channels = out_channels
    stem = Convolution("stem_conv", "stem_bn", image_channels, options["width"], 7, 2)
    return Layout(stem, tuple(blocks), in_channels)


def list_parameters(layout: Layout, num_classes: int) -> dict[str, Draw]:
    """Return the initial draw of every array, by its canonical name."""
    draws: dict[str, Draw] = {}
    for convolution in layout.convolutions:
        kernel, channels = convolution.kernel, convolution.out_channels
        draws[f"{convolution.name}.kernel"] = he_normal(kernel, kernel, convolution.in_channels, channels)
        draws |= batchnorm(convolution.batchnorm, channels)
    draws["dense.kernel"] = he_normal(layout.out_channels, num_classes)
    draws["dense.bias"] = constant(0.0, num_classes)
    return draws


def compute_smallest_map(size: int, rules: dict[str, dict], given: dict[str, Any]) -> int:
    """Return the height or width of the last stage's feature maps. size: height or width of the network's images."""
    # The stem halves twice and each stage but the first once; every half is rounded up.
    return -(-size // 2 ** (1 + len(fill_options(rules, given)["blocks"])))
