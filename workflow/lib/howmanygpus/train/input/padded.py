"""
Flip and move small training images by one call of numpy for a whole batch.

For that, the images are copied once per process, with empty pixels between them and, if a run flips images, once more
flipped.
"""

import cv2
import numpy as np

from howmanygpus.train.input.draws import Share

MAX_COPY_BYTES = 2**29
"""Largest size of the copies. More images are changed by ManyImages, without copies and at less than half the speed."""
IMAGES_PER_FLIP = 1024


def is_copied(source: np.ndarray, random_flip: bool, crop_padding: int) -> bool:
    """Whether the images of an array (count, height, width, channels) are few and small enough for PaddedImages."""
    count, height, width, channels = source.shape
    num_copies = 1 + random_flip
    return num_copies * count * (height + crop_padding) * (width + crop_padding) * channels <= MAX_COPY_BYTES


class PaddedImages:
    """Changes many images by one call, which does not hold the GIL, to the same bytes as place().

    Each row of a copy ends with as many empty pixels as an image may be moved by, and each image with as many empty
    rows. A moved image is therefore a window of the copy: its rows lie at equal distances and need no other change.
    """

    def __init__(self, source: np.ndarray, random_flip: bool, crop_padding: int):
        """source: uint8 (count, height, width, channels), contiguous. crop_padding: largest move in pixels."""
        count, height, width, channels = self._shape = source.shape
        self._padding = crop_padding
        row_bytes, pixel_bytes = (width + crop_padding) * channels, channels
        image_bytes, num_copies = (height + crop_padding) * row_bytes, 1 + random_flip
        # Empty pixels before the first image, as there are between others.
        start = crop_padding * (row_bytes + pixel_bytes)
        copies = np.zeros(start + num_copies * count * image_bytes, np.uint8)
        row = np.dtype((np.void, width * channels))
        """All bytes of a row as one item, so that numpy copies a row by one memmove."""
        shape, strides = (num_copies, count, height), (count * image_bytes, image_bytes, row_bytes)
        rows = np.ndarray(shape, row, copies, start, strides)
        rows[0] = view_rows(source, row)
        for first in range(0, count if random_flip else 0, IMAGES_PER_FLIP):
            part = source[first : first + IMAGES_PER_FLIP]
            flipped = cv2.flip(part.reshape(-1, width, channels), 1)
            rows[1, first : first + IMAGES_PER_FLIP] = view_rows(flipped.reshape(part.shape), row)
        num_moves = 2 * crop_padding + 1
        windows = (num_copies * count, num_moves, num_moves, height)
        self._windows = np.ndarray(windows, row, copies, strides=(image_bytes, row_bytes, pixel_bytes, row_bytes))
        """Item (sample, top + padding, left + padding) has the rows of an image that is moved by (top, left)."""

    def take(self, share: Share) -> np.ndarray:
        """Return the images of a share, changed: uint8 (count, height, width, channels)."""
        count, height, width, channels = self._shape
        changes = share.changes
        which = share.samples + count * changes.flipped
        rows = self._windows[which, changes.top + self._padding, changes.left + self._padding]
        return rows.view(np.uint8).reshape(len(which), height, width, channels)

    def fill(self, share: Share, images: np.ndarray) -> None:
        """Write the images of a share, changed, into `images`: uint8 (count, height, width, channels)."""
        images[...] = self.take(share)


def view_rows(images: np.ndarray, row: np.dtype) -> np.ndarray:
    """Return images (count, height, width, channels) as an array (count, height) whose items are rows."""
    return np.ascontiguousarray(images).reshape(-1).view(row).reshape(images.shape[:2])
