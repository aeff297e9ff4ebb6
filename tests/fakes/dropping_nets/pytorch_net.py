"""A network with PyTorch's own dropout, for tests of the parity gate."""

from torch import nn


def build(image_shape: tuple[int, int, int], num_classes: int, width: int = 16, depth: int = 2) -> nn.Module:
    return nn.Sequential(
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * image_shape[2], width),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(width, num_classes),
    )
