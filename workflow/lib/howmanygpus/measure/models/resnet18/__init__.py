"""
ResNet-18 (He et al. 2016, arXiv:1512.03385, table 1, column "18-layer").

It has four stages of two blocks with two 3x3 convolutions each. With 1000 classes it has 11,689,512 trainable
parameters, and takes 1.81e9 multiply-adds for an image of 224x224 pixels, as torchvision's `resnet18`.
"""
