"""
AlexNet with one tower (Krizhevsky 2014, arXiv:1404.5997, section 5), in the form of torchvision's `alexnet`.

It has five convolutions, some of them followed by 3x3 max pooling with stride 2, and three dense layers. Dropout drops
half of the units before the first and the second dense layer. ReLU follows every layer but the last; all layers have
biases. torchvision averages the last feature maps to 6x6 pixels, which is their size for images of 224x224 pixels. Here
the first dense layer takes them as they are, so its size depends on that of the images.

With 1000 classes and images of 224x224 pixels it has 61,100,840 parameters, and takes 7.14e8 multiply-adds per image.
"""

import numpy as np

from howmanygpus.measure.models.layers.conv import Conv
from howmanygpus.measure.models.layers.dense import Dense
from howmanygpus.measure.models.layers.dropout import Dropout
from howmanygpus.measure.models.layers.flatten import Flatten
from howmanygpus.measure.models.layers.pooling import MaxPool
from howmanygpus.measure.models.layers.relu import Relu
from howmanygpus.measure.models.layout import Layout, Node, chain
from howmanygpus.measure.models.options import fraction, integer
from howmanygpus.measure.models.published import Published, name_role

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
MULTIPLES = (1, 3, 6, 4, 4)
"""Channels of the convolutions, as multiples of the width."""
KERNELS = (5, 3, 3, 3)
"""Height and width of the second to the fifth convolution, which are padded by half of it."""


def lay_out(
    num_classes: int, width: int, kernel: int, stride: int, poolings: list[int], hidden: int, dropout: float
) -> Layout:
    parts: list[Node] = []
    sizes = [(kernel, stride, STEM_PADDING), *((size, 1, size // 2) for size in KERNELS)]
    for number, (multiple, (size, step, padding)) in enumerate(zip(MULTIPLES, sizes, strict=True), start=1):
        channels = multiple * width
        parts += [Conv(f"conv{number}", channels, size, stride=step, padding=padding, use_bias=True), Relu()]
        parts += [MaxPool(3, stride=2, padding=0)] if number in poolings else []
    parts.append(Flatten())
    for number in (1, 2):
        parts += [Dropout(f"dropout{number}", rate=dropout), Dense(f"hidden{number}", hidden), Relu()]
    return Layout(chain(*parts, Dense("dense", num_classes)))


PUBLISHED_NAMES = {
    **{"conv1": "features.0", "conv2": "features.3", "conv3": "features.6", "conv4": "features.8"},
    **{"conv5": "features.10", "hidden1": "classifier.1", "hidden2": "classifier.4", "dense": "classifier.6"},
}
CHANNELS, PIXELS = 256, (6, 6)
"""Size of the last feature maps. torchvision flattens them channel by channel, the workflow pixel by pixel."""


def to_published_name(name: str) -> str:
    layer, _, role = name.rpartition(".")
    return f"{PUBLISHED_NAMES[layer]}.{name_role(role)}"


def reorder(name: str, array: np.ndarray) -> np.ndarray:
    """Return the kernel of the first dense layer (out, in) with its inputs in the workflow's order."""
    if name != "hidden1.kernel":
        return array
    return array.reshape(-1, CHANNELS, *PIXELS).transpose(0, 2, 3, 1).reshape(len(array), -1)


PUBLISHED = Published("alexnet-owt-7be5be79.pth", "imagenet", to_published_name, reorder=reorder)
"""torchvision's `AlexNet_Weights.IMAGENET1K_V1`."""
