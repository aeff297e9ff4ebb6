"""
ResNet-18 (He et al. 2016, arXiv:1512.03385, table 1, column "18-layer").

It has four stages of two blocks with two 3x3 convolutions each. With 1000 classes it has 11,689,512 trainable
parameters, and takes 1.81e9 multiply-adds for an image of 224x224 pixels, as torchvision's `resnet18`.
"""

from howmanygpus.measure.models.layout import Layout
from howmanygpus.measure.models.published import Published
from howmanygpus.measure.models.residual import lay_out_basic, lay_out_residual, make_options, to_published_name

OPTIONS = make_options(blocks=[2, 2, 2, 2])
PUBLISHED = Published("resnet18-f37072fd.pth", "imagenet", to_published_name)
"""torchvision's `ResNet18_Weights.IMAGENET1K_V1`."""


def lay_out(num_classes: int, blocks: list[int], width: int) -> Layout:
    return lay_out_residual(lay_out_basic, 1, num_classes, blocks, width)
