"""Encode one image as JPEG."""

import numpy as np
import simplejpeg

QUALITY = 90


def encode_jpeg(image: np.ndarray, quality: int = QUALITY) -> bytes:
    """Encode an image, uint8 (height, width, 1 or 3), contiguous. Colours keep their full resolution (4:4:4)."""
    colours = "GRAY" if image.shape[2] == 1 else "RGB"
    return simplejpeg.encode_jpeg(image, quality, colours, colorsubsampling="444")
