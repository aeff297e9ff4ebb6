"""
Residual networks for large images (He et al. 2016, arXiv:1512.03385, table 1), of which resnet18 and resnet50 are two.

The stem is a 7x7 convolution with stride 2 and 3x3 max pooling with stride 2, so the stages see a quarter of the height
and width. The first block of each stage but the first has stride 2. All padding is symmetric. If a block
changes the shape, its shortcut is a 1x1 convolution (option B of the paper). BatchNorm follows every convolution, with
the epsilon and the momentum of torchvision's networks.
"""

import re
from collections.abc import Callable
from typing import Any

from howmanygpus.measure.models.layers.batchnorm import BatchNorm
from howmanygpus.measure.models.layers.conv import Conv
from howmanygpus.measure.models.layers.dense import Dense
from howmanygpus.measure.models.layers.global_pooling import GlobalAveragePool
from howmanygpus.measure.models.layers.pooling import MaxPool
from howmanygpus.measure.models.layers.relu import Relu
from howmanygpus.measure.models.layout import Chain, Layout, Node, Sum, chain
from howmanygpus.measure.models.options import integer
from howmanygpus.measure.models.published import name_role

BATCHNORM = {"epsilon": 1e-5, "momentum": 0.9}
EXPANSION = 4
"""Ratio of a bottleneck's output channels to those of its 3x3 convolution."""
PUBLISHED_STEM = {"stem_conv": "conv1", "stem_bn": "bn1", "dense": "fc"}
PUBLISHED_SHORTCUT = {"shortcut_conv": "downsample.0", "shortcut_bn": "downsample.1"}
Body = Callable[[str, int, int], Chain]
"""From the name of a block, the channels of its 3x3 convolutions and its stride to its convolutions."""


def make_options(blocks: list[int]) -> dict[str, dict[str, Any]]:
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


def convolve(block: str, number: str, channels: int, kernel: int, stride: int = 1) -> Chain:
    """Return a convolution, padded by half of its kernel, and the batch normalisation that follows it."""
    name, padding = f"{block}_conv{number}", kernel // 2
    convolution = Conv(name, channels, kernel, stride=stride, padding=padding, use_bias=False)
    return chain(convolution, BatchNorm(f"{block}_bn{number}", **BATCHNORM))


def lay_out_basic(name: str, width: int, stride: int) -> Chain:
    """Return two 3x3 convolutions, the first with the stride."""
    return chain(convolve(name, "1", width, 3, stride), Relu(), convolve(name, "2", width, 3))


def lay_out_bottleneck(name: str, width: int, stride: int) -> Chain:
    """Return a 1x1 convolution to fewer channels, a 3x3 one with the stride (v1.5), and a 1x1 one to more channels."""
    first, second = convolve(name, "1", width, 1), convolve(name, "2", width, 3, stride)
    return chain(first, Relu(), second, Relu(), convolve(name, "3", EXPANSION * width, 1))


def lay_out_residual(lay_out_body: Body, expansion: int, num_classes: int, blocks: list[int], width: int) -> Layout:
    """Lay out a network. expansion: ratio of a block's output channels to those of its 3x3 convolutions."""
    parts: list[Node] = [convolve("stem", "", width, 7, stride=2), Relu(), MaxPool(3, stride=2, padding=1)]
    in_channels = width
    for stage, num_blocks in enumerate(blocks):
        for index in range(num_blocks):
            name, stride = f"stage{stage + 1}_block{index + 1}", 2 if stage > 0 and index == 0 else 1
            inner, out_channels = width * 2**stage, expansion * width * 2**stage
            has_new_shape = stride != 1 or in_channels != out_channels
            shortcut = convolve(f"{name}_shortcut", "", out_channels, 1, stride) if has_new_shape else chain()
            parts += [Sum(lay_out_body(name, inner, stride), shortcut), Relu()]
            in_channels = out_channels
    return Layout(chain(*parts, GlobalAveragePool(), Dense("dense", num_classes)))


def to_published_name(name: str) -> str:
    """Return torchvision's name of an array, for example `layer1.0.bn2.weight` for `stage1_block1_bn2.scale`."""
    layer, _, role = name.rpartition(".")
    if found := re.fullmatch(r"stage(\d+)_block(\d+)_(\w+)", layer):
        stage, block, part = found.groups()
        return f"layer{stage}.{int(block) - 1}.{PUBLISHED_SHORTCUT.get(part, part)}.{name_role(role)}"
    return f"{PUBLISHED_STEM[layer]}.{name_role(role)}"
