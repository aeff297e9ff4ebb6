"""Load one image by Pillow, as most users of PyTorch and Chainer do, and resize crops for all loaders."""

import numpy as np
from PIL import Image

from howmanygpus.measure.input.draws import Augmentation

MODES = {1: "L", 3: "RGB"}
"""Pillow's mode for each number of channels."""
RESAMPLING = Image.Resampling.BILINEAR
"""Filter of torchvision's RandomResizedCrop: a triangle, widened if the image becomes smaller (antialiasing).

Pillow computes it in integers, so that the result does not depend on the processor.
"""


def load_image(source: str | np.ndarray, change: Augmentation, shape: tuple[int, int, int]) -> np.ndarray:
    """Load and change an image from a file or from pixels; returns uint8 (height, width, channels)."""
    if isinstance(source, str):
        with Image.open(source) as file:
            image = file.convert(MODES[shape[2]])
    else:
        image = Image.fromarray(source[..., 0] if shape[2] == 1 else source)
    return np.array(flip_and_crop(image, change, shape[:2])).reshape(shape)


def flip_and_crop(image: Image.Image, change: Augmentation, size: tuple[int, int]) -> Image.Image:
    """Flip and crop; Pillow fills the part of a crop outside the image with zeros.

    size: height and width of the result. If the change has a size of its own, the crop has that size, and is resized.
    """
    flipped, top, left, own_size = change
    height, width = own_size or size
    if flipped:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if top or left or image.size != (width, height):
        image = image.crop((left, top, left + width, top + height))
    return image.resize((size[1], size[0]), RESAMPLING) if own_size else image


def resize(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize one image, uint8 (height, width, channels), to the bytes of flip_and_crop()."""
    channels = pixels.shape[2]
    if channels not in MODES:
        # Pillow resizes every channel of an image by itself, too.
        return np.concatenate([resize(pixels[..., i : i + 1], height, width) for i in range(channels)], axis=2)
    image = Image.fromarray(pixels[..., 0] if channels == 1 else pixels)
    return np.asarray(image.resize((width, height), RESAMPLING)).reshape(height, width, channels)
