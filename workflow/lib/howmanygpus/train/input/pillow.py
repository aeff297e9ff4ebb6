"""Load one image by Pillow, as most users of PyTorch and Chainer do."""

import numpy as np
from PIL import Image

from howmanygpus.train.input.draws import Change

MODES = {1: "L", 3: "RGB"}
"""Pillow's mode for each number of channels."""


def load_image(source: str | np.ndarray, change: Change, shape: tuple[int, int, int]) -> np.ndarray:
    """Load and change an image from a file or from pixels; returns uint8 (height, width, channels)."""
    if isinstance(source, str):
        with Image.open(source) as file:
            image = file.convert(MODES[shape[2]])
    else:
        image = Image.fromarray(source[..., 0] if shape[2] == 1 else source)
    return np.array(flip_and_crop(image, change)).reshape(shape)


def flip_and_crop(image: Image.Image, change: Change) -> Image.Image:
    """Flip, then crop; Pillow fills the part of a crop outside the image with zeros."""
    if change.flipped:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if change.top or change.left:
        image = image.crop((change.left, change.top, change.left + image.width, change.top + image.height))
    return image
