"""Options, layers and canonical parameters of AlexNet."""

from dataclasses import dataclass
from typing import NamedTuple

from howmanygpus.measure.models.initialization import Draw, constant, he_normal
from howmanygpus.measure.models.options import fill_options, fraction, integer

OPTIONS = {
    "width": integer(
        "Channels of the first convolution; the others have 3, 6, 4 and 4 times as many.", 1, 1024, default=64
    ),
    "kernel": integer("Height and width of the first convolution, in pixels.", 3, 11, default=11),
    "stride": integer("Stride of the first convolution.", 1, 4, default=4),
    "poolings": {
        "description": "Convolutions, by their numbers from 1, that a maximum over 3x3 pixels follows.",
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": 5},
        "uniqueItems": True,
        "maxItems": 5,
        "default": [1, 2, 5],
    },
    "hidden": integer("Units of the first and of the second dense layer.", 1, 16384, default=4096),
    "dropout": fraction("Fraction of the units before these two layers that is dropped in training.", default=0.5),
}
STEM_PADDING = 2
POOLING_SIZE = 3
POOLING = {"stride": 2, "padding": 0}
MULTIPLES = (1, 3, 6, 4, 4)
"""Channels of the convolutions, as multiples of the width."""
KERNELS = (5, 3, 3, 3)
"""Height and width of the second to the fifth convolution, which are padded by half of it."""


class Convolution(NamedTuple):
    """One convolution. pools: whether 3x3 max pooling follows."""

    name: str
    in_channels: int
    out_channels: int
    kernel: int
    stride: int
    padding: int
    pools: bool

    def shrink(self, size: int) -> int:
        """Return the height or width of the outputs. size: height or width of the inputs."""
        size = (size + 2 * self.padding - self.kernel) // self.stride + 1
        return max(0, (size - POOLING_SIZE) // POOLING["stride"] + 1) if self.pools else max(0, size)


class HiddenLayer(NamedTuple):
    """A dense layer, and the dropout that precedes it."""

    name: str
    dropout: str
    in_features: int
    out_features: int


@dataclass(frozen=True)
class Layout:
    """Layers of the network. rate: fraction of units that dropout drops."""

    convolutions: tuple[Convolution, ...]
    hidden: tuple[HiddenLayer, HiddenLayer]
    rate: float


def list_convolutions(image_channels: int, **options) -> tuple[Convolution, ...]:
    chosen = fill_options(OPTIONS, options)
    channels = [image_channels, *(chosen["width"] * multiple for multiple in MULTIPLES)]
    sizes = [(chosen["kernel"], chosen["stride"], STEM_PADDING), *((kernel, 1, kernel // 2) for kernel in KERNELS)]
    return tuple(
        Convolution(f"conv{number}", channels[number - 1], channels[number], *size, number in chosen["poolings"])
        for number, size in enumerate(sizes, start=1)
    )


def lay_out(image_shape: tuple[int, int, int], **options) -> Layout:
    """Lay out the network. image_shape: (height, width, channels)."""
    chosen, (height, width, channels) = fill_options(OPTIONS, options), image_shape
    convolutions = list_convolutions(channels, **options)
    for each in convolutions:
        height, width = each.shrink(height), each.shrink(width)
    features, units = height * width * convolutions[-1].out_channels, chosen["hidden"]
    hidden = (HiddenLayer("hidden1", "dropout1", features, units), HiddenLayer("hidden2", "dropout2", units, units))
    return Layout(convolutions, hidden, chosen["dropout"])


def parameters(image_shape: tuple[int, int, int], num_classes: int, **options) -> dict[str, Draw]:
    """Return the initial draw of every array, by its canonical name. image_shape: (height, width, channels)."""
    layout, draws = lay_out(image_shape, **options), {}
    for each in layout.convolutions:
        draws[f"{each.name}.kernel"] = he_normal(each.kernel, each.kernel, each.in_channels, each.out_channels)
        draws[f"{each.name}.bias"] = constant(0.0, each.out_channels)
    dense = [(each.name, each.in_features, each.out_features) for each in layout.hidden]
    for name, in_features, out_features in [*dense, ("dense", dense[-1][2], num_classes)]:
        draws[f"{name}.kernel"] = he_normal(in_features, out_features)
        draws[f"{name}.bias"] = constant(0.0, out_features)
    return draws


def smallest_map(size: int, **options) -> int:
    """Return the height or width of the last feature maps. size: height or width of the network's images."""
    for each in list_convolutions(1, **options):
        size = each.shrink(size)
    return size
