"""
Resize one image, and encode it as JPEG.

All filters average over all pixels that fall into a new one. OpenCV's LINEAR and Pillow's NEAREST use only a few of
them and cause aliasing, so they are not offered.
"""

import cv2
import numpy as np
import simplejpeg
from PIL import Image

PILLOW_FILTERS = {
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "lanczos": Image.Resampling.LANCZOS,
}
"""Filters of Pillow, which widens them for shrinking. `area` is OpenCV's, and weights pixels by their overlap."""

# One core prepares one image. The shards are distributed over several processes.
cv2.setNumThreads(1)


def resize(image: np.ndarray, size: tuple[int, int], filter_name: str = "area") -> np.ndarray:
    """Stretch an image, uint8 (height, width, 1 or 3), to `size` (height, width)."""
    if image.shape[:2] == tuple(size):
        return image
    resized = _resize_by_area(image, *size) if filter_name == "area" else _resize_by_pillow(image, size, filter_name)
    return resized if resized.ndim == 3 else resized[..., None]


def _resize_by_area(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Shrink by area, then enlarge linearly. OpenCV's AREA interpolates both directions if either is enlarged."""
    smaller = (min(width, image.shape[1]), min(height, image.shape[0]))
    if smaller != image.shape[1::-1]:
        image = cv2.resize(image, smaller, interpolation=cv2.INTER_AREA)
    return image if smaller == (width, height) else cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)


def _resize_by_pillow(image: np.ndarray, size: tuple[int, int], filter_name: str) -> np.ndarray:
    pixels = image[..., 0] if image.shape[2] == 1 else image
    return np.asarray(Image.fromarray(pixels).resize((size[1], size[0]), PILLOW_FILTERS[filter_name]))


QUALITY = 90


def encode_jpeg(image: np.ndarray, quality: int = QUALITY) -> bytes:
    """Encode an image, uint8 (height, width, 1 or 3), contiguous. Colours keep their full resolution (4:4:4)."""
    colours = "GRAY" if image.shape[2] == 1 else "RGB"
    return simplejpeg.encode_jpeg(image, quality, colours, colorsubsampling="444")
