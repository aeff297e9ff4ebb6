"""
Multiply-adds of the workflow's networks for one image, from those that docs/networks.md lists.

They are exact, for images with any number of channels, any number of classes, and sizes whose number of multiply-adds
follows from the number of pixels. For other sizes and networks they are not known.
"""

from collections.abc import Sequence
from dataclasses import dataclass

TRAINING_FACTOR = 3
"""Passes through the network of a training step, in units of the forward pass: the backward pass computes the gradients
of inputs and of weights (Kaplan et al. 2020, arXiv:2001.08361, section 2.1)."""
FLOPS = 2
"""Operations of a multiply-add, as in the published peaks of devices."""


@dataclass(frozen=True)
class NetworkCount:
    """Multiply-adds of a network at the image size and number of classes that it was written for.

    first: of the layer that reads the image. dense: of the layers whose size does not depend on the image's, the last
    one included. last: of the layer whose size is the number of classes. stride: the maps of a size that is a multiple
    of it are as many times smaller in every layer; None if only its own size is known.
    """

    height: int
    width: int
    num_classes: int
    total: int
    first: int
    dense: int
    last: int
    stride: int | None = None
    channels: int = 3


STEM = 7 * 7 * 3 * 64 * 112 * 112
"""Of the first convolution of the ResNets for ImageNet and of DenseNet."""
NETWORKS = {
    "alexnet": NetworkCount(
        *(224, 224, 1000, 714_188_480),
        first=11 * 11 * 3 * 64 * 55 * 55,
        dense=256 * 6 * 6 * 4096 + 4096 * 4096 + 4096 * 1000,
        last=4096 * 1000,
    ),
    "resnet18": NetworkCount(224, 224, 1000, 1_814_073_344, first=STEM, dense=512 * 1000, last=512 * 1000, stride=32),
    "resnet50": NetworkCount(224, 224, 1000, 4_089_184_256, first=STEM, dense=2048 * 1000, last=2048 * 1000, stride=32),
    "densenet121": NetworkCount(
        224, 224, 1000, 2_834_161_664, first=STEM, dense=1024 * 1000, last=1024 * 1000, stride=32
    ),
    "inception_v3": NetworkCount(
        *(299, 299, 1000, 5_713_216_096), first=3 * 3 * 3 * 32 * 149 * 149, dense=2048 * 1000, last=2048 * 1000
    ),
    "vit_b16": NetworkCount(
        *(224, 224, 1000, 17_563_828_224), first=16 * 16 * 3 * 768 * 14 * 14, dense=768 * 1000, last=768 * 1000
    ),
    "resnet44": NetworkCount(
        32, 32, 10, 97_174_144, first=3 * 3 * 3 * 16 * 32 * 32, dense=64 * 10, last=64 * 10, stride=4
    ),
}


def count_multiply_adds(spec: dict, image_shape: Sequence[int], num_classes: int) -> float | None:
    """Return the multiply-adds of a run's network for one image; None if they are not known.

    spec: of the run. image_shape: height, width and channels of the prepared images, which the run may crop. Those of a
    user's own network, and of a network with other options than its own, are not known.
    """
    network = NETWORKS.get(spec["model"])
    if network is None or spec.get("model_options") or spec.get("model_file") or spec.get("model_folder"):
        return None
    height, width, channels = image_shape
    if size := (spec.get("random_resized_crop") or {}).get("size") or spec.get("crop"):
        height, width = size
    is_multiple = network.stride is not None and height % network.stride == width % network.stride == 0
    if (height, width) != (network.height, network.width) and not is_multiple:
        return None
    pixels = height * width / (network.height * network.width)
    inner = network.total - network.first - network.dense
    first, last = network.first * channels / network.channels, network.last * num_classes / network.num_classes
    return pixels * (first + inner) + network.dense - network.last + last


def compute_flops_per_image(multiply_adds: float) -> float:
    """Return the floating-point operations of training with one image."""
    return FLOPS * TRAINING_FACTOR * multiply_adds
