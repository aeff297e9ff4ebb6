"""
Residual networks for large images (He et al. 2016, arXiv:1512.03385, table 1), of which resnet18 and resnet50 are two.

The stem is a 7x7 convolution with stride 2 and 3x3 max pooling with stride 2, so the stages see a quarter of the height
and width. The first block of each stage but the first has stride 2. All padding is symmetric. If a block
changes the shape, its shortcut is a 1x1 convolution (option B of the paper). BatchNorm follows every convolution, with
the epsilon and the momentum of torchvision's networks.
"""
