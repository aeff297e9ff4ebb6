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
