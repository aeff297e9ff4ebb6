"""
torchvision's `Inception_V3_Weights.IMAGENET1K_V1`. The name of the file has the beginning of its SHA-256.

The weights were ported from TensorFlow and take pixel values from -1 to 1: with them torchvision sets
`transform_input`, which converts images normalised by ImageNet's statistics back to that range.
"""

import re

from howmanygpus.measure.models.conversion import name_role

FILE = "inception_v3_google-0cc3c7bd.pth"
NORMALIZATION = "symmetric"
DROPPED = ("AuxLogits.",)
"""The auxiliary classifier, which the model omits."""
STEM = {
    **{"stem_1_conv1": "Conv2d_1a_3x3", "stem_1_conv2": "Conv2d_2a_3x3", "stem_1_conv3": "Conv2d_2b_3x3"},
    **{"stem_1_conv5": "Conv2d_3b_1x1", "stem_1_conv6": "Conv2d_4a_3x3"},
}
BLOCKS = {
    **{"first1": "Mixed_5b", "first2": "Mixed_5c", "first3": "Mixed_5d", "reduction1": "Mixed_6a"},
    **{"second1": "Mixed_6b", "second2": "Mixed_6c", "second3": "Mixed_6d", "second4": "Mixed_6e"},
    **{"reduction2": "Mixed_7a", "third1": "Mixed_7b", "third2": "Mixed_7c"},
}
BRANCHES = {
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
    return f"{STEM.get(convolution) or _name_mixed(convolution)}.{part}.{name_role(role)}"


def _name_mixed(convolution: str) -> str:
    """Return the name of a convolution of a block, for example `Mixed_7b.branch3x3_2a` for `third1_2_conv2a`."""
    found = re.fullmatch(r"(\w+?)_(\d+)_conv(\w+)", convolution)
    assert found, convolution
    block, branch, number = found.groups()
    names = BRANCHES.get(block) or BRANCHES[block.rstrip("0123456789")]
    name = names[int(branch) - 1]
    return f"{BLOCKS[block]}.{name}{number if name.endswith('_') else ''}"
