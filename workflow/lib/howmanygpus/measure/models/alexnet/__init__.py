"""
AlexNet with one tower (Krizhevsky 2014, arXiv:1404.5997, section 5), in the form of torchvision's `alexnet`.

It has five convolutions, some of them followed by 3x3 max pooling with stride 2, and three dense layers. Dropout drops
half of the units before the first and the second dense layer. ReLU follows every layer but the last; all layers have
biases. torchvision averages the last feature maps to 6x6 pixels, which is their size for images of 224x224 pixels. Here
the first dense layer takes them as they are, so its size depends on that of the images.

With 1000 classes and images of 224x224 pixels it has 61,100,840 parameters, and takes 7.14e8 multiply-adds per image.
"""
