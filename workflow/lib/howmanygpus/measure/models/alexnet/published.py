"""torchvision's `AlexNet_Weights.IMAGENET1K_V1`. The name of the file has the beginning of its SHA-256."""

import numpy as np

from howmanygpus.measure.models.conversion import name_role

FILE = "alexnet-owt-7be5be79.pth"
NORMALIZATION = "imagenet"
NAMES = {
    **{"conv1": "features.0", "conv2": "features.3", "conv3": "features.6", "conv4": "features.8"},
    **{"conv5": "features.10", "hidden1": "classifier.1", "hidden2": "classifier.4", "dense": "classifier.6"},
}
CHANNELS, PIXELS = 256, (6, 6)
"""Size of the last feature maps. torchvision flattens them channel by channel, the workflow pixel by pixel."""


def to_published_name(name: str) -> str:
    layer, _, role = name.rpartition(".")
    return f"{NAMES[layer]}.{name_role(role)}"


def reorder(name: str, array: np.ndarray) -> np.ndarray:
    """Return the kernel of the first dense layer (out, in) with its inputs in the workflow's order."""
    if name != "hidden1.kernel":
        return array
    return array.reshape(-1, CHANNELS, *PIXELS).transpose(0, 2, 3, 1).reshape(len(array), -1)
