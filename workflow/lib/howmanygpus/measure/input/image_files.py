"""
Images as PNG or JPEG files that are decoded when they are asked for: PNG by OpenCV, JPEG by simplejpeg.

Both libraries release the GIL, so that several threads decode at the same time.
"""

import itertools
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from functools import cache
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np
import simplejpeg

from howmanygpus.measure.input.description import image_name

Result = TypeVar("Result")
CHANNELS = (1, 3)
"""Numbers of channels that files can have: gray or RGB."""

# This module chooses the threads; OpenCV by itself would use all cores of the machine.
cv2.setNumThreads(0)


def centre(shape: tuple[int, ...], size: tuple[int, int]) -> tuple[slice, slice]:
    """Return the rows and columns in the centre of an image. shape: the image's; size: height and width of the part.

    If the margins cannot be equal, the one at the top or on the left is one pixel smaller.
    """
    top, left = (shape[0] - size[0]) // 2, (shape[1] - size[1]) // 2
    return slice(top, top + size[0]), slice(left, left + size[1])


class ImageFiles:
    """The images of one split, with shape, len and indexing as an array of images has them."""

    def __init__(self, folder: Path, split: str, form: str, shape: tuple[int, int, int, int], num_threads: int):
        """shape: (count, height, width, channels) of all images. num_threads: threads that decode a batch."""
        self.folder, self.split, self.form, self.shape = str(folder), split, form, shape
        self._num_threads, self._stored_shape, self._part = num_threads, shape[1:], (slice(None), slice(None))

    def __len__(self) -> int:
        return self.shape[0]

    def crop_centre(self, size: tuple[int, int]) -> "ImageFiles":
        """Return the same files, cropped at their centre. size: height and width of the crop."""
        cropped = copy(self)
        cropped._part = centre(self._stored_shape, size)
        cropped.shape = (self.shape[0], *size, self.shape[3])
        return cropped

    def path(self, index: int) -> str:
        return f"{self.folder}/{image_name(self.split, index, self.form)}"

    def __getitem__(self, which: int | np.ndarray) -> np.ndarray:
        """One image, uint8 (height, width, channels), or the images of an array of indices along a new first axis."""
        if isinstance(which, int):
            return self._decode(self.path(which))
        images = np.empty((len(which), *self.shape[1:]), np.uint8)
        indices = [int(index) for index in which]

        def fill(start: int, stop: int) -> None:
            for i in range(start, stop):
                images[i] = self._decode(self.path(indices[i]))

        for future in start_in_threads(fill, len(indices), self._num_threads, self._num_threads):
            future.result()
        return images

    def _decode(self, path: str) -> np.ndarray:
        image = read_jpeg(path, self.shape[3]) if self.form == "jpeg" else read_png(path, self.shape[3])
        if image is None or image.shape != self._stored_shape:
            found = "cannot be decoded" if image is None else f"has shape {image.shape}, not {self._stored_shape}"
            raise ValueError(f"{path}: {found}; delete {self.folder} and run the workflow again to make it anew")
        return image[self._part]


def read_png(path: str, channels: int) -> np.ndarray | None:
    """Pixels (height, width, channels); None if the file is no image."""
    image = cv2.imread(path, cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR_RGB)
    return image[..., None] if channels == 1 and image is not None else image


def read_jpeg(path: str, channels: int) -> np.ndarray | None:
    """Pixels (height, width, channels); None if the file is no image."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        content = os.read(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)
    try:
        return simplejpeg.decode_jpeg(content, "GRAY" if channels == 1 else "RGB")
    except ValueError:
        return None


def start_in_threads(
    fill: Callable[[int, int], None], count: int, num_parts: int, num_threads: int
) -> list[Future[None]]:
    """Begin to call fill(start, stop) for num_parts equal parts of range(count), in a pool of num_threads threads.

    With one thread everything is done in the calling thread, before this returns.
    """
    if num_threads == 1:
        fill(0, count)
        return []
    edges = [count * part // num_parts for part in range(num_parts + 1)]
    pool = _thread_pool(num_threads)
    return [pool.submit(fill, start, stop) for start, stop in itertools.pairwise(edges)]


def start_in_thread(call: Callable[[], Result], num_threads: int) -> Future[Result]:
    """Submit a call to the pool of num_threads threads, and return its future."""
    return _thread_pool(num_threads).submit(call)


@cache
def _thread_pool(num_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(num_threads, thread_name_prefix="loader")
