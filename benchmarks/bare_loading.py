"""Bare loops over images, in the shortest code and with the fastest libraries, as a baseline for loader.py."""

import io

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from howmanygpus.measure.input.prepared import PreparedData

SIDE, PADDING, NUM_IMAGES, BATCH_SIZE = 264, 20, 512, 64


def decode_with_pillow(content: bytes, channels: int) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image)


def decode_with_opencv(content: bytes, channels: int) -> np.ndarray:
    flag = cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR_RGB
    return cv2.imdecode(np.frombuffer(content, np.uint8), flag)


def decode_with_simplejpeg(content: bytes, channels: int) -> np.ndarray:
    return simplejpeg.decode_jpeg(content, "GRAY" if channels == 1 else "RGB")


DECODERS = {
    "jpeg": {"Pillow": decode_with_pillow, "OpenCV": decode_with_opencv, "simplejpeg": decode_with_simplejpeg},
    "png": {"Pillow": decode_with_pillow, "OpenCV": decode_with_opencv},
}


def copy_changed(image: np.ndarray, target: np.ndarray, top: int, left: int, flipped: int) -> None:
    """Move and flip an image in the shortest code."""
    if flipped % 2:
        image = cv2.flip(image, 1).reshape(image.shape)
    target[: SIDE - top, : SIDE - left] = image[top:, left:]
    target[SIDE - top :], target[:, SIDE - left :] = 0, 0


def copy_plainly(image: np.ndarray, target: np.ndarray, *_) -> None:
    target[...] = image


def bare_loop(data: PreparedData, read, copy):
    """Yield batches of the images that read(index) returns, in random order, each placed by `copy`."""
    order, random = np.random.default_rng(1).permutation(NUM_IMAGES).tolist(), np.random.default_rng(2)
    batch = np.empty((BATCH_SIZE, *data.image_shape), np.uint8)
    while True:
        for start in range(0, NUM_IMAGES, BATCH_SIZE):
            for i, draws in enumerate(random.integers(0, PADDING, (BATCH_SIZE, 3)).tolist()):
                copy(read(order[start + i]), batch[i], *draws)
            yield batch, None


def bare_files(data: PreparedData, decode):
    files, shape = data.train_images, data.image_shape

    def read(index: int) -> np.ndarray:
        with open(files.path(index), "rb") as file:
            return decode(file.read(), shape[2]).reshape(shape)

    return bare_loop(data, read, copy_changed)
