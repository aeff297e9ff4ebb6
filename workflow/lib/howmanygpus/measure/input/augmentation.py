"""
Flip, crop and resize training images: one at a time, or many small ones at once.

numpy, OpenCV and Pillow release the GIL while they work on an image. If images are small, the calls take longer than
the work, and Python holds the GIL during the calls. `ManyImages` and `ManyCrops` therefore change many images per call.
`PaddedImages` flips and moves a whole batch in one call. It needs a copy of the images per process, with empty pixels
between them, and a second, flipped copy if the run flips images.
"""

import cv2
import numpy as np

from howmanygpus.measure.input.draws import Augmentation, LocalBatch
from howmanygpus.measure.input.pillow import resize

SMALL_IMAGE_BYTES = 24 * 2**10
"""Images up to this size are changed many per call. Larger ones are faster one at a time."""
MAX_COPY_BYTES = 2**29
"""Largest size of the copies. ManyImages changes larger arrays, without copies and at less than half the speed."""
IMAGES_PER_FLIP = 1024


def place(image: np.ndarray, target: np.ndarray, change: Augmentation) -> None:
    """Write a changed image into `target`; both are uint8 (height, width, channels)."""
    flipped, top, left, size = change
    if size is not None:
        part = np.empty((*size, image.shape[2]), np.uint8)
        crop(image, part, flipped, top, left)
        target[...] = resize(part, target.shape[0], target.shape[1])
        return
    if image.shape != target.shape:
        crop(image, target, flipped, top, left)
        return
    if not (flipped or top or left):
        target[...] = image
        return
    height, width, channels = target.shape
    if abs(top) >= height or abs(left) >= width:
        target[...] = 0
        return
    if flipped and channels == 1:
        # OpenCV flips many gray pixels at a time, directly into the target.
        rows, columns = slice(max(0, -top), height - max(0, top)), slice(max(0, -left), width - max(0, left))
        seen = image[max(0, top) : height + min(0, top), max(0, -left) : width - max(0, left)]
        cv2.flip(seen, 1, dst=target[rows, columns])
    else:
        if flipped:
            # OpenCV flips RGB pixels one at a time, which is faster into new memory than into the target.
            image = cv2.flip(image, 1)
        # One run of bytes is copied faster than many rows; pixels that it carries over an edge are cleared below.
        pixels, moved, shift = image.reshape(-1), target.reshape(-1), (top * width + left) * channels
        if shift >= 0:
            moved[: len(moved) - shift] = pixels[shift:]
        else:
            moved[-shift:] = pixels[:shift]
    clear_edges(target, top, left)


def crop(image: np.ndarray, target: np.ndarray, flipped: bool, top: int, left: int) -> None:
    """Write the part of an image, flipped or not, that begins at (top, left) into `target`, with 0 outside the image.

    The part is a view of the image before it is flipped, so that only its pixels are copied.
    """
    height, width, channels = image.shape
    rows = slice(max(top, 0), max(min(top + target.shape[0], height), 0))
    columns = slice(max(left, 0), max(min(left + target.shape[1], width), 0))
    inside = target[max(-top, 0) :, max(-left, 0) :][: rows.stop - rows.start, : columns.stop - columns.start]
    if inside.shape != target.shape:
        target[...] = 0
    if not inside.size:
        return
    if not flipped:
        inside[...] = image[rows, columns]
        return
    seen = image[rows, width - columns.stop : width - columns.start]
    if channels == 1:
        cv2.flip(seen, 1, dst=inside)
    else:
        inside[...] = cv2.flip(seen, 1)


def clear_edges(target: np.ndarray, top: int, left: int) -> None:
    """Set the pixels that an image moved by (top, left) does not cover to 0."""
    if top > 0:
        target[-top:] = 0
    elif top < 0:
        target[:-top] = 0
    if left > 0:
        target[:, -left:] = 0
    elif left < 0:
        target[:, :-left] = 0


def is_small(source: np.ndarray) -> bool:
    """Whether ManyImages changes the images of an array (count, height, width, channels) faster than place()."""
    return source[0].nbytes <= SMALL_IMAGE_BYTES


class ManyImages:
    """Change many images of an array per call, to the same bytes as place().

    As in place(), an image is moved by copying one run of bytes that begins earlier or later than the image, here also
    in the images before and after it, and the pixels that the run carries over an edge are cleared.
    """

    def __init__(self, source: np.ndarray, crop_padding: int):
        """source: uint8 (count, height, width, channels), contiguous. crop_padding: largest move in pixels."""
        self._source, self._padding = source, crop_padding
        _, height, width, channels = source.shape
        self._image = np.dtype((np.void, source[0].nbytes))
        """All bytes of an image as one item, so that numpy copies an image by one memmove."""
        pixels = source.reshape(-1)
        num_runs = pixels.size - self._image.itemsize + 1
        self._runs = np.ndarray((num_runs,), self._image, pixels, strides=(1,))
        """Item k is the run that begins with byte k."""
        self._rows = np.arange(height)
        columns = np.arange(width) + np.arange(-crop_padding, crop_padding + 1)[:, None, None]
        inside = np.where((columns >= 0) & (columns < width), 255, 0).astype(np.uint8)
        rows = np.repeat(np.repeat(inside, channels, axis=2), height, axis=1)
        self._kept = rows.reshape(2 * crop_padding + 1, self._image.itemsize)
        """Row `left + crop_padding`: 255 for each byte of an image that a move by `left` covers, 0 for the others."""

    def fill(self, share: LocalBatch, images: np.ndarray) -> None:
        """Write the images of a share, changed, into `images`: uint8 (count, height, width, channels), contiguous."""
        if self._padding:
            self._fill_moved(share, images)
        else:
            # In the mode "raise", numpy would copy everything a second time.
            np.take(self._source, share.samples, axis=0, out=images, mode="clip")
            flip(images, share.changes.flipped.nonzero()[0])

    def _fill_moved(self, share: LocalBatch, images: np.ndarray) -> None:
        count, height, width, channels = images.shape
        flipped, top = share.changes.flipped, share.changes.top
        # An image that is flipped after its move has to move the other way.
        left = np.where(flipped, -share.changes.left, share.changes.left)
        starts = share.samples * self._image.itemsize + (top * width + left) * channels
        possible = np.minimum(np.maximum(starts, 0), len(self._runs) - 1)
        moved, kept = self._runs[possible].view(np.uint8), self._kept.take(left + self._padding, axis=0)
        np.bitwise_and(moved, kept.reshape(-1), out=images.reshape(-1))
        rows = top[:, None] + self._rows
        images.reshape(count * height, width * channels)[((rows < 0) | (rows >= height)).reshape(-1)] = 0
        flip(images, flipped.nonzero()[0])
        # The run of the array's first or last image may begin before the array or end after it.
        for i in (possible != starts).nonzero()[0].tolist():
            place(self._source[share.samples[i]], images[i], share.changes[i])


class ManyCrops:
    """Crops many images of an array by each call, to the same bytes as place(). The crops are within the images."""

    def __init__(self, source: np.ndarray, size: tuple[int, int]):
        """source: uint8 (count, height, width, channels). size: height and width of the crops."""
        self._surplus_width = source.shape[2] - size[1]
        windows = np.lib.stride_tricks.sliding_window_view(source, size, axis=(1, 2))
        self._windows = np.moveaxis(windows, 3, -1)
        """Item (sample, top, left) is the crop there: a view (height, width, channels)."""

    def fill(self, share: LocalBatch, images: np.ndarray) -> None:
        """Write the images of a share, changed, into `images`: uint8 (count, height, width, channels), contiguous."""
        flipped, left = share.changes.flipped, share.changes.left
        # A crop that is flipped afterwards has to be at the other side.
        left = np.where(flipped, self._surplus_width - left, left)
        images[...] = self._windows[share.samples, share.changes.top, left]
        flip(images, flipped.nonzero()[0])


def flip(images: np.ndarray, which: np.ndarray) -> None:
    """Flip the images of these positions from left to right, as the rows of one tall image. images: contiguous."""
    if not len(which):
        return
    _, _, width, channels = images.shape
    items = images.reshape(-1).view(np.dtype((np.void, images[0].nbytes)))
    flipped = cv2.flip(items[which].view(np.uint8).reshape(-1, width, channels), 1)
    items[which] = flipped.reshape(-1).view(items.dtype)


def is_copied(source: np.ndarray, random_flip: bool, crop_padding: int) -> bool:
    """Whether the images of an array (count, height, width, channels) are few and small enough for PaddedImages."""
    count, height, width, channels = source.shape
    num_copies = 1 + random_flip
    return num_copies * count * (height + crop_padding) * (width + crop_padding) * channels <= MAX_COPY_BYTES


class PaddedImages:
    """Change many images in one call that does not hold the GIL, to the same bytes as place().

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

    def take(self, share: LocalBatch) -> np.ndarray:
        """Return the images of a share, changed: uint8 (count, height, width, channels)."""
        count, height, width, channels = self._shape
        changes = share.changes
        which = share.samples + count * changes.flipped
        rows = self._windows[which, changes.top + self._padding, changes.left + self._padding]
        return rows.view(np.uint8).reshape(len(which), height, width, channels)

    def fill(self, share: LocalBatch, images: np.ndarray) -> None:
        """Write the images of a share, changed, into `images`: uint8 (count, height, width, channels)."""
        images[...] = self.take(share)


def view_rows(images: np.ndarray, row: np.dtype) -> np.ndarray:
    """Return images (count, height, width, channels) as an array (count, height) whose items are rows."""
    return np.ascontiguousarray(images).reshape(-1).view(row).reshape(images.shape[:2])
