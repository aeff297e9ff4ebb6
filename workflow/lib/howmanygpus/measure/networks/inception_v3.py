"""
Inception v3 (Szegedy et al. 2016, arXiv:1512.00567, table 1), in the form of torchvision's `inception_v3`.

A stem reduces images of 299x299 pixels to feature maps of 35x35. Three blocks follow, a reduction to 17x17, four blocks
with 1x7 and 7x1 convolutions, a reduction to 8x8, and two blocks. Each block concatenates its branches. Batch
normalisation with an epsilon of 1e-3 and ReLU follow every convolution. Dropout drops half of the units before the last
layer. The auxiliary classifier, which only training uses, is left out, and so is torchvision's optional change of the
input.

With 1000 classes it has 23,834,568 trainable parameters, and takes 5.71e9 multiply-adds for an image of 299x299 pixels.
"""

import re
from typing import Any, NamedTuple, TypeAlias

from howmanygpus.measure.models.layers.batchnorm import BatchNorm
from howmanygpus.measure.models.layers.concatenation import Concatenation
from howmanygpus.measure.models.layers.conv import Conv
from howmanygpus.measure.models.layers.dense import Dense
from howmanygpus.measure.models.layers.dropout import Dropout
from howmanygpus.measure.models.layers.global_pooling import GlobalAveragePool
from howmanygpus.measure.models.layers.pooling import AveragePool, MaxPool
from howmanygpus.measure.models.layers.relu import Relu
from howmanygpus.measure.models.layout import Chain, Layout, Node, chain
from howmanygpus.measure.models.options import fraction, integer
from howmanygpus.measure.models.published import Published, name_role

OPTIONS: dict[str, dict] = {
    "blocks": {
        "description": "Blocks before the first reduction, between the reductions and after the second one.",
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": 100},
        "minItems": 3,
        "maxItems": 3,
        "default": [3, 4, 2],
    },
    "width": integer(
        "Channels of which all convolutions have a multiple, such as 2 in the stem and 20 at the end.",
        1,
        256,
        default=16,
    ),
    "stem": {
        "description": "`small` keeps the size of the images; `full` makes 35x35 pixels of 299x299.",
        "enum": ["full", "small"],
        "default": "full",
    },
    "dropout": fraction("Fraction of the units before the last layer that is dropped in training.", default=0.5),
}
BATCHNORM = {"epsilon": 1e-3, "momentum": 0.9}


class Sketch(NamedTuple):
    """A convolution, padded to keep the size of its images unless is_open. units: channels, in units of the width."""

    units: int
    height: int = 1
    width: int = 1
    stride: int = 1
    is_open: bool = False


Sketched: TypeAlias = Sketch | MaxPool | AveragePool | tuple[Sketch, Sketch]
MEAN, REDUCTION = AveragePool(3, stride=1, padding=1), MaxPool(3, stride=2, padding=0)
KERNEL_1X7, KERNEL_7X1 = (1, 7), (7, 1)
OPEN: dict[str, Any] = {"is_open": True}
HALVING: dict[str, Any] = {"stride": 2, "is_open": True}
STEMS: dict[str, list[Sketched]] = {
    "full": [
        *(Sketch(2, 3, 3, **HALVING), Sketch(2, 3, 3, **OPEN), Sketch(4, 3, 3), REDUCTION),
        *(Sketch(5), Sketch(12, 3, 3, **OPEN), REDUCTION),
    ],
    "small": [Sketch(2, 3, 3), Sketch(2, 3, 3), Sketch(4, 3, 3), Sketch(5), Sketch(12, 3, 3)],
}


def sketch_first(pooled: int) -> list[list[Sketched]]:
    """Return the block of figure 5, with a 5x5 convolution in one branch. pooled: units after the average pooling."""
    double = [Sketch(4), Sketch(6, 3, 3), Sketch(6, 3, 3)]
    return [[Sketch(4)], [Sketch(3), Sketch(4, 5, 5)], [*double], [MEAN, Sketch(pooled)]]


def sketch_second(units: int) -> list[list[Sketched]]:
    """Return the block of figure 6. units: units of the 1x7 and 7x1 convolutions except the last one of each branch."""
    single = [Sketch(units), Sketch(units, *KERNEL_1X7), Sketch(12, *KERNEL_7X1)]
    double = [Sketch(units), Sketch(units, *KERNEL_7X1), Sketch(units, *KERNEL_1X7)]
    double += [Sketch(units, *KERNEL_7X1), Sketch(12, *KERNEL_1X7)]
    return [[Sketch(12)], [*single], [*double], [MEAN, Sketch(12)]]


def sketch_third() -> list[list[Sketched]]:
    """Return the block of figure 7."""
    split = (Sketch(24, 1, 3), Sketch(24, 3, 1))
    return [[Sketch(20)], [Sketch(24), split], [Sketch(28), Sketch(24, 3, 3), split], [MEAN, Sketch(12)]]


FIRST_REDUCTION: list[list[Sketched]] = [
    [Sketch(24, 3, 3, **HALVING)],
    [Sketch(4), Sketch(6, 3, 3), Sketch(6, 3, 3, **HALVING)],
    [REDUCTION],
]
SECOND_REDUCTION: list[list[Sketched]] = [
    [Sketch(12), Sketch(20, 3, 3, **HALVING)],
    [Sketch(12), Sketch(12, *KERNEL_1X7), Sketch(12, *KERNEL_7X1), Sketch(12, 3, 3, **HALVING)],
    [REDUCTION],
]


def sketch(blocks: list[int], stem: str) -> dict[str, list[list[Sketched]]]:
    """Return the branches of every block, by the block's name."""
    num_first, num_second, num_third = blocks
    # 128, 160, 160 and 192 channels with the model's own number of blocks and width.
    units = [8] + [10] * (num_second - 2) + [12] * (num_second > 1)
    sketched = {"stem": [STEMS[stem]]}
    sketched |= {f"first{number}": sketch_first(4 if number > 1 else 2) for number in range(1, num_first + 1)}
    sketched["reduction1"] = FIRST_REDUCTION
    sketched |= {f"second{number}": sketch_second(each) for number, each in enumerate(units, start=1)}
    sketched["reduction2"] = SECOND_REDUCTION
    return sketched | {f"third{number}": sketch_third() for number in range(1, num_third + 1)}


def lay_out(num_classes: int, blocks: list[int], width: int, stem: str, dropout: float) -> Layout:
    parts: list[Node] = []
    for name, sketched in sketch(blocks, stem).items():
        branches = [lay_out_branch(f"{name}_{number}", each, width) for number, each in enumerate(sketched, start=1)]
        parts.append(Concatenation(tuple(branches)) if len(branches) > 1 else branches[0])
    return Layout(chain(*parts, GlobalAveragePool(), Dropout("dropout", rate=dropout), Dense("dense", num_classes)))


def lay_out_branch(name: str, sketched: list[Sketched], width: int) -> Chain:
    parts: list[Node] = []
    for number, given in enumerate(sketched, start=1):
        if isinstance(given, Sketch):
            parts.append(convolve(f"{name}_conv{number}", given, width))
        elif isinstance(given, MaxPool | AveragePool):
            parts.append(given)
        else:
            first, second = given
            split = convolve(f"{name}_conv{number}a", first, width), convolve(f"{name}_conv{number}b", second, width)
            parts.append(Concatenation(split))
    return chain(*parts)


def convolve(name: str, given: Sketch, width: int) -> Chain:
    """Return a convolution, then batch normalisation and ReLU."""
    rows, columns = (0, 0) if given.is_open else (given.height // 2, given.width // 2)
    padding, kernel = ((rows, rows), (columns, columns)), (given.height, given.width)
    convolution = Conv(name, given.units * width, kernel, stride=given.stride, padding=padding, use_bias=False)
    return chain(convolution, BatchNorm(f"{name}_bn", **BATCHNORM), Relu())


PUBLISHED_STEM = {
    **{"stem_1_conv1": "Conv2d_1a_3x3", "stem_1_conv2": "Conv2d_2a_3x3", "stem_1_conv3": "Conv2d_2b_3x3"},
    **{"stem_1_conv5": "Conv2d_3b_1x1", "stem_1_conv6": "Conv2d_4a_3x3"},
}
PUBLISHED_BLOCKS = {
    **{"first1": "Mixed_5b", "first2": "Mixed_5c", "first3": "Mixed_5d", "reduction1": "Mixed_6a"},
    **{"second1": "Mixed_6b", "second2": "Mixed_6c", "second3": "Mixed_6d", "second4": "Mixed_6e"},
    **{"reduction2": "Mixed_7a", "third1": "Mixed_7b", "third2": "Mixed_7c"},
}
PUBLISHED_BRANCHES = {
    "first": ("branch1x1", "branch5x5_", "branch3x3dbl_", "branch_pool"),
    "reduction1": ("branch3x3", "branch3x3dbl_"),
    "second": ("branch1x1", "branch7x7_", "branch7x7dbl_", "branch_pool"),
    "reduction2": ("branch3x3_", "branch7x7x3_"),
    "third": ("branch1x1", "branch3x3_", "branch3x3dbl_", "branch_pool"),
}
"""Names of the branches of a block, in order. The number of the convolution follows an underscore at the end."""


def to_published_name(name: str) -> str:
    layer, _, role = name.rpartition(".")
    if layer == "dense":
        return f"fc.{name_role(role)}"
    convolution = layer.removesuffix("_bn")
    part = "conv" if layer == convolution else "bn"
    return f"{PUBLISHED_STEM.get(convolution) or _name_mixed(convolution)}.{part}.{name_role(role)}"


def _name_mixed(convolution: str) -> str:
    """Return the name of a convolution of a block, for example `Mixed_7b.branch3x3_2a` for `third1_2_conv2a`."""
    found = re.fullmatch(r"(\w+?)_(\d+)_conv(\w+)", convolution)
    assert found, convolution
    block, branch, number = found.groups()
    names = PUBLISHED_BRANCHES.get(block) or PUBLISHED_BRANCHES[block.rstrip("0123456789")]
    name = names[int(branch) - 1]
    return f"{PUBLISHED_BLOCKS[block]}.{name}{number if name.endswith('_') else ''}"


PUBLISHED = Published("inception_v3_google-0cc3c7bd.pth", "symmetric", to_published_name, dropped=("AuxLogits.",))
"""
torchvision's `Inception_V3_Weights.IMAGENET1K_V1`, without the auxiliary classifier.

The weights were ported from TensorFlow and take pixel values from -1 to 1: with them torchvision sets
`transform_input`, which converts images normalised by ImageNet's statistics back to that range.
"""
