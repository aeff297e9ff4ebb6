"""
Inception v3 (Szegedy et al. 2016, arXiv:1512.00567, table 1), in the form of torchvision's `inception_v3`.

A stem reduces images of 299x299 pixels to feature maps of 35x35. Three blocks follow, a reduction to 17x17, four blocks
with 1x7 and 7x1 convolutions, a reduction to 8x8, and two blocks. Each block concatenates its branches. Batch
normalisation with an epsilon of 1e-3 and ReLU follow every convolution. Dropout drops half of the units before the last
layer. The auxiliary classifier, which only training uses, is left out, and so is torchvision's optional change of the
input.

With 1000 classes it has 23,834,568 trainable parameters, and takes 5.71e9 multiply-adds for an image of 299x299 pixels.
"""
