"""
DenseNet-121 (Huang et al. 2017, arXiv:1608.06993, table 1, column "DenseNet-121").

It is the version with bottlenecks and compression (DenseNet-BC, growth rate 32, theta 0.5): four dense blocks of 6, 12,
24 and 16 layers. Each layer is BatchNorm, ReLU, a 1x1 convolution to four times the growth rate, BatchNorm, ReLU and a
3x3 convolution; its output is appended to its input. Between two blocks a transition halves the channels by a 1x1
convolution, and height and width by 2x2 average pooling, which leaves out an odd row or column. The stem is that of
the residual networks. All padding is symmetric. BatchNorm has the epsilon and the momentum of torchvision's
`densenet121`.

With 1000 classes it has 7,978,856 trainable parameters, and takes 2.83e9 multiply-adds for an image of 224x224 pixels.
"""

import re

from howmanygpus.measure.models.layers.batchnorm import BatchNorm
from howmanygpus.measure.models.layers.concatenation import Concatenation
from howmanygpus.measure.models.layers.conv import Conv
from howmanygpus.measure.models.layers.dense import Dense
from howmanygpus.measure.models.layers.global_pooling import GlobalAveragePool
from howmanygpus.measure.models.layers.pooling import AveragePool, MaxPool
from howmanygpus.measure.models.layers.relu import Relu
from howmanygpus.measure.models.layout import Chain, Layout, NamedLayer, Node, chain
from howmanygpus.measure.models.options import integer
from howmanygpus.measure.models.published import Published, name_role

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
BOTTLENECK = 4
"""Channels between the two convolutions of a layer, as a multiple of the growth rate."""


def lay_out(num_classes: int, blocks: list[int], growth: int, width: int) -> Layout:
    parts: list[Node] = [
        convolve("stem_conv", width, 7, stride=2),
        *normalise("stem_bn"),
        MaxPool(3, stride=2, padding=1),
    ]
    channels = width
    for number, num_layers in enumerate(blocks, start=1):
        for index in range(1, num_layers + 1):
            parts.append(Concatenation((chain(), lay_out_layer(f"block{number}_layer{index}", growth))))
        channels += num_layers * growth
        if number < len(blocks):
            channels //= 2
            parts += [*normalise(f"transition{number}_bn"), convolve(f"transition{number}_conv", channels, 1)]
            parts.append(AveragePool(2, stride=2, padding=0))
    parts += [*normalise("final_bn"), GlobalAveragePool(), Dense("dense", num_classes)]
    return Layout(chain(*parts), order)


def lay_out_layer(name: str, growth: int) -> Chain:
    """Return one layer of a dense block, whose output is appended to its input."""
    first, second = convolve(f"{name}_conv1", BOTTLENECK * growth, 1), convolve(f"{name}_conv2", growth, 3)
    return chain(*normalise(f"{name}_bn1"), first, *normalise(f"{name}_bn2"), second)


def convolve(name: str, channels: int, kernel: int, stride: int = 1) -> Conv:
    """Return a convolution that is padded by half of its kernel."""
    return Conv(name, channels, kernel, stride=stride, padding=kernel // 2, use_bias=False)


def normalise(name: str) -> tuple[BatchNorm, Relu]:
    return BatchNorm(name, **BATCHNORM), Relu()


def order(layer: NamedLayer) -> int:
    """Place the convolutions before the normalisations, and the dense layer last."""
    return (Conv, BatchNorm, Dense).index(type(layer))


PUBLISHED_NAMES = {
    **{"stem_conv": "features.conv0", "stem_bn": "features.norm0"},
    **{"final_bn": "features.norm5", "dense": "classifier"},
}


def to_published_name(name: str) -> str:
    layer, _, role = name.rpartition(".")
    layer = re.sub(r"^block(\d+)_layer(\d+)_", r"features.denseblock\1.denselayer\2.", layer)
    layer = re.sub(r"^transition(\d+)_", r"features.transition\1.", layer)
    return f"{PUBLISHED_NAMES.get(layer) or re.sub(r'[.]bn', '.norm', layer)}.{name_role(role)}"


# The published file is older than the present names: `denselayer1.norm.1.weight` is `denselayer1.norm1.weight`.
OLD_NAMES = ((r"\.(norm|conv)\.([12])\.", r".\1\2."),)
PUBLISHED = Published("densenet121-a639ec97.pth", "imagenet", to_published_name, old_names=OLD_NAMES)
"""torchvision's `DenseNet121_Weights.IMAGENET1K_V1`."""
