"""
ViT-B/16 (Dosovitskiy et al. 2021, arXiv:2010.11929, table 1, row "ViT-Base"), in the form of torchvision's `vit_b_16`.

A convolution makes a token of every patch of 16x16 pixels; pixels at the right and at the lower edge that make no whole
patch are left out. A token for the class is put before them, and an embedding that is learned for each position added.
Twelve blocks follow. In each, layer normalisation and attention with 12 heads are added to their input, and then layer
normalisation and two dense layers with GELU between them. The last layer classifies the normalised token of the class.
GELU is exact, and layer normalisation adds 1e-6 to the variance. Nothing is dropped, as by torchvision's default.

With 1000 classes and images of 224x224 pixels it has 86,567,656 parameters, and takes 1.756e10 multiply-adds an image.
"""
