"""
ResNet-50 v1.5 (He et al. 2016, arXiv:1512.03385, table 1, column "50-layer").

It has four stages of 3, 4, 6 and 3 bottlenecks. Version 1.5 has the stride on the 3x3 convolution instead of the first
1x1 convolution (Goyal et al. 2017, arXiv:1706.02677, section 5.1), as torchvision's `resnet50` has. With 1000 classes
it has 25,557,032 trainable parameters, and takes 4.09e9 multiply-adds for an image of 224x224 pixels.
"""

from howmanygpus.measure.models.layout import Layout
from howmanygpus.measure.models.published import Published
from howmanygpus.measure.models.residual import (
    EXPANSION,
    lay_out_bottleneck,
    lay_out_residual,
    make_options,
    to_published_name,
)

OPTIONS = make_options(blocks=[3, 4, 6, 3])
PUBLISHED = Published("resnet50-0676ba61.pth", "imagenet", to_published_name)
"""torchvision's `ResNet50_Weights.IMAGENET1K_V1`."""


def lay_out(num_classes: int, blocks: list[int], width: int) -> Layout:
    return lay_out_residual(lay_out_bottleneck, EXPANSION, num_classes, blocks, width)
