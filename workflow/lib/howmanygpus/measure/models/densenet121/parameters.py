"""Options, layers and canonical parameters of DenseNet-121."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from howmanygpus.measure.models.initialization import Draw, batchnorm, constant, he_normal
from howmanygpus.measure.models.options import fill_options, integer

OPTIONS = {
    "blocks": {
        "description": "Layers of each dense block. The number of entries is the number of dense blocks.",
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": 200},
        "minItems": 1,
        "maxItems": 6,
        "default": [6, 12, 24, 16],
    },
    "growth": integer("Channels that each layer appends.", 1, 1024, default=32),
    "width": integer("Channels of the stem.", 1, 1024, default=64),
}
BATCHNORM = {"epsilon": 1e-5, "momentum": 0.9}
"""momentum: weight of the old running statistic; PyTorch's `momentum` is one minus this."""
STEM_POOLING = {"stride": 2, "padding": 1}
"""3x3 max pooling of the stem."""
TRANSITION_POOLING = {"stride": 2, "padding": 0}
"""2x2 average pooling of a transition."""
BOTTLENECK = 4
"""Channels between the two convolutions of a layer, as a multiple of the growth rate."""


class Convolution(NamedTuple):
    """One convolution, padded by half of its kernel, and the batch normalisation that precedes it.

    The batch normalisation of the stem follows it.
    """

    name: str
    batchnorm: str
    in_channels: int
    out_channels: int
    kernel: int
    stride: int

    @property
    def padding(self) -> int:
        return self.kernel // 2


class DenseBlock(NamedTuple):
    """layers: the two convolutions of each layer. transition: follows the block; None after the last block."""

    layers: tuple[tuple[Convolution, Convolution], ...]
    transition: Convolution | None


@dataclass(frozen=True)
class Layout:
    """out_channels: channels after the last block. A last batch normalisation, `final_bn`, follows it."""

    stem: Convolution
    blocks: tuple[DenseBlock, ...]
    out_channels: int

    @property
    def convolutions(self) -> Iterator[Convolution]:
        """Every convolution, in order."""
        yield self.stem
        for layers, transition in self.blocks:
            for layer in layers:
                yield from layer
            if transition:
                yield transition

    @property
    def batchnorms(self) -> Iterator[tuple[str, int]]:
        """Name and channels of every batch normalisation, in order."""
        yield self.stem.batchnorm, self.stem.out_channels
        for convolution in list(self.convolutions)[1:]:
            yield convolution.batchnorm, convolution.in_channels
        yield "final_bn", self.out_channels


def lay_out(image_channels: int, **options) -> Layout:
    chosen = fill_options(OPTIONS, options)
    channels, growth, blocks = chosen["width"], chosen["growth"], []
    for number, num_layers in enumerate(chosen["blocks"], start=1):
        layers = []
        for index in range(1, num_layers + 1):
            name, between = f"block{number}_layer{index}", BOTTLENECK * growth
            first = Convolution(f"{name}_conv1", f"{name}_bn1", channels, between, 1, 1)
            layers.append((first, Convolution(f"{name}_conv2", f"{name}_bn2", between, growth, 3, 1)))
            channels += growth
        transition = None
        if number < len(chosen["blocks"]):
            names = (f"transition{number}_conv", f"transition{number}_bn")
            transition = Convolution(*names, channels, channels // 2, 1, 1)
            channels //= 2
        blocks.append(DenseBlock(tuple(layers), transition))
    stem = Convolution("stem_conv", "stem_bn", image_channels, chosen["width"], 7, 2)
    return Layout(stem, tuple(blocks), channels)


def parameters(image_shape: tuple[int, int, int], num_classes: int, **options) -> dict[str, Draw]:
    """Return the initial draw of every array, by its canonical name. image_shape: (height, width, channels)."""
    layout = lay_out(image_shape[2], **options)
    draws: dict[str, Draw] = {}
    for each in layout.convolutions:
        draws[f"{each.name}.kernel"] = he_normal(each.kernel, each.kernel, each.in_channels, each.out_channels)
    for name, channels in layout.batchnorms:
        draws |= batchnorm(name, channels)
    draws["dense.kernel"] = he_normal(layout.out_channels, num_classes)
    draws["dense.bias"] = constant(0.0, num_classes)
    return draws


def smallest_map(size: int, **options) -> int:
    """Return the height or width of the last block's feature maps; 0 if the network's images are too small.

    size: height or width of the network's images.
    """
    # The stem rounds up twice, and every transition rounds down.
    return -(-size // 4) // 2 ** (len(fill_options(OPTIONS, options)["blocks"]) - 1)
