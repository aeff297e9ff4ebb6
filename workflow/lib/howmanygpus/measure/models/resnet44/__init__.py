"""
ResNet-44 for small images (He et al. 2016, arXiv:1512.03385, section 4.2).

It has three stages of seven blocks with 16, 32 and 64 channels. Shortcuts have no parameters: if the shape changes,
they take every second pixel and pad the new channels with zeros. On 32x32 RGB with ten classes the network has 658,586
trainable parameters.
"""
