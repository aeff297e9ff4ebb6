"""
AlexNet with one tower (Krizhevsky 2014, arXiv:1404.5997, section 5), in the form of torchvision's `alexnet`.

Five convolutions, some of which a maximum over 3x3 pixels at every second pixel follows, and three dense layers. Before
the first and the second dense layer half of the units are dropped in training. ReLU follows every layer but the last;
all have biases. torchvision averages the last images to 6x6 pixels, which images of 224x224 pixels have already. Here
the first dense layer takes them as they are, so that its size follows that of the images.

With 1000 classes and images of 224x224 pixels it has 61,100,840 parameters, and takes 7.14e8 multiply-adds an image.
"""
