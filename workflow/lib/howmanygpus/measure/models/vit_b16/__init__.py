"""
ViT-B/16 (Dosovitskiy et al. 2021, arXiv:2010.11929, table 1, row "ViT-Base"), in the form of torchvision's `vit_b_16`.

A convolution makes a token of every patch of 16x16 pixels; pixels at the right and lower edges that make no whole patch
are left out. A class token precedes the others, and a learned position embedding is added to each. Twelve blocks
follow. Each has two residual branches: layer normalisation and attention with 12 heads, then layer normalisation and
two dense layers with GELU between them. The last layer classifies the normalised class token. GELU is exact, and layer
normalisation has an epsilon of 1e-6. There is no dropout, as by torchvision's default.

With 1000 classes and images of 224x224 pixels it has 86,567,656 parameters, and takes 1.756e10 multiply-adds per image.
"""
