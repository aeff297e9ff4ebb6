"""
Draw which images form each batch and how each is changed, identically for every loader, framework and device count.

Order and augmentation are counter-based draws: block i of a Philox stream keyed by (seed, epoch) belongs to sample i.
They therefore do not depend on the framework, the device count, or the order in which samples are requested. Stream 0
has a sample's place in the order, its flip and the place of its crop; stream k has try k at a random resized crop. The
stream after those has the order of frozen batches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from howmanygpus.measure.input.image_files import ImageFiles
from howmanygpus.measure.loop.schedule import count_steps, count_steps_per_epoch
from howmanygpus.measure.spec import ResizedCropSpec, RunSpec

WORDS_PER_BLOCK = 4
"""Number of 64-bit words that one step of Philox4x64's counter yields."""
TRIES = 10
"""Tries at a random resized crop that fits into its image, before the largest centred one is taken."""
SHUFFLE_BUFFER = 1000
"""Number of frozen batches among which the next one is chosen."""
EXP_TERMS = 40
"""Terms of the series of exp(), enough for ratios of height and width up to 1000 to 1."""


def draw_epoch(seed: int, epoch: int, num_samples: int, stream: int = 0) -> np.ndarray:
    """Random words of one epoch, uint64 (num_samples, 4). Row i is sample i's, whatever num_samples is."""
    philox = np.random.Philox(key=[seed, epoch], counter=[0, stream, 0, 0])
    # Integers of all 64 bits are the words of Philox as they are. Unlike random_raw, this does not hold the GIL.
    last = 2**64 - 1
    words = np.random.Generator(philox).integers(
        last, size=num_samples * WORDS_PER_BLOCK, dtype=np.uint64, endpoint=True
    )
    return words.reshape(num_samples, WORDS_PER_BLOCK)


def epoch_order(draws: np.ndarray) -> np.ndarray:
    """Permutation that sorts the samples by their first word; equal words keep the order of their samples."""
    words = draws[:, 0].copy()
    # numpy's default sort takes a fifth of the time of its stable one on processors with AVX-512.
    order = np.argsort(words)
    ordered = words[order]
    return np.argsort(words, kind="stable") if (ordered[1:] == ordered[:-1]).any() else order


class Augmentation(NamedTuple):
    """How one image is changed: it is flipped left to right or not, and then cropped.

    Pixel (row, column) moves to (row - top, column - left). Pixels that leave the crop are lost; empty ones become 0.
    size: height and width of a crop that is resized to the size of all images; None if it has that size.
    """

    flipped: bool
    top: int
    left: int
    size: tuple[int, int] | None = None


@dataclass(frozen=True)
class Augmentations:
    """How each of several images is changed: the fields of Augmentation as arrays, bool and int64 (count,).

    size: int64 (count, 2), or None if no crop is resized.
    """

    flipped: np.ndarray
    top: np.ndarray
    left: np.ndarray
    size: np.ndarray | None = None

    def __getitem__(self, index: int) -> Augmentation:
        size = None if self.size is None else (int(self.size[index, 0]), int(self.size[index, 1]))
        return Augmentation(bool(self.flipped[index]), int(self.top[index]), int(self.left[index]), size)

    def __iter__(self) -> Iterator[Augmentation]:
        columns = [self.flipped.tolist(), self.top.tolist(), self.left.tolist()]
        return (
            map(Augmentation, *columns)
            if self.size is None
            else map(Augmentation, *columns, map(tuple, self.size.tolist()))
        )

    def part(self, start: int, stop: int) -> "Augmentations":
        """Return the changes of the images from start up to stop."""
        which = slice(start, stop)
        size = None if self.size is None else self.size[which]
        return Augmentations(self.flipped[which], self.top[which], self.left[which], size)


@dataclass(frozen=True)
class LocalBatch:
    """Images that one process feeds at one step: their indices, int64 (count,), and how each is changed."""

    samples: np.ndarray
    changes: Augmentations

    def part(self, start: int, stop: int) -> "LocalBatch":
        """Return the images from start up to stop."""
        return LocalBatch(self.samples[start:stop], self.changes.part(start, stop))


def join(shares: list[LocalBatch]) -> LocalBatch:
    """Concatenate several shares."""
    if len(shares) == 1:
        return shares[0]
    changes = [share.changes for share in shares]
    names = ("flipped", "top", "left") if changes[0].size is None else ("flipped", "top", "left", "size")
    fields = {name: np.concatenate([getattr(each, name) for each in changes]) for name in names}
    return LocalBatch(np.concatenate([share.samples for share in shares]), Augmentations(**fields))


def draw_flips(words: np.ndarray, random_flip: bool) -> np.ndarray:
    """Return which images are flipped, bool (count,): those whose word 1 has its low bit set. words: (count, 4)."""
    return (words[:, 1] & np.uint64(random_flip)).astype(bool)


def draw_changes(
    words: np.ndarray, random_flip: bool, crop_padding: int, surplus: tuple[int, int] = (0, 0)
) -> Augmentations:
    """Turn random words into changes. words: uint64 (count, 4), a row for each image.

    The low bit of word 1 flips left to right; words 2 and 3 place the crop in the image padded by crop_padding zero
    pixels on each side. surplus: pixels by which the image is higher and wider than the crop.
    """
    num_places = np.array([extra + 2 * crop_padding + 1 for extra in surplus], np.uint64)
    places = (words[:, 2:] % num_places).astype(np.int64) - crop_padding
    return Augmentations(draw_flips(words, random_flip), places[:, 0].copy(), places[:, 1].copy())


def draw_boxes(
    seed: int, epoch: int, num_samples: int, image_size: tuple[int, int], crop: ResizedCropSpec
) -> np.ndarray:
    """Draw the part of each image that a random resized crop shows: int64 (num_samples, 4), top, left, height, width.

    As in torchvision.transforms.RandomResizedCrop.get_params, which follows Szegedy et al. 2015
    (arXiv:1409.4842): the area is uniform and the ratio of width to height uniform in its logarithm. A part that does
    not fit is drawn again. After TRIES draws in all, the largest centred part of a permitted ratio is used instead.
    """
    height, width = image_size
    boxes = np.tile(compute_centred_box(image_size, crop.aspect), (num_samples, 1))
    lowest, highest = (float(Decimal(aspect).ln()) for aspect in crop.aspect)
    waiting = np.arange(num_samples)
    for stream in range(1, TRIES + 1):
        words = draw_epoch(seed, epoch, num_samples, stream)[waiting]
        areas = height * width * spread(words[:, 0], *crop.area)
        aspects = exp(spread(words[:, 1], lowest, highest))
        heights = np.rint(np.sqrt(areas / aspects)).astype(np.int64)
        widths = np.rint(np.sqrt(areas * aspects)).astype(np.int64)
        fits = (heights > 0) & (heights <= height) & (widths > 0) & (widths <= width)
        heights, widths, words = heights[fits], widths[fits], words[fits]
        tops = words[:, 2] % (height - heights + 1).astype(np.uint64)
        lefts = words[:, 3] % (width - widths + 1).astype(np.uint64)
        boxes[waiting[fits]] = np.stack([tops.astype(np.int64), lefts.astype(np.int64), heights, widths], axis=1)
        waiting = waiting[~fits]
        if not len(waiting):
            break
    return boxes


def compute_centred_box(image_size: tuple[int, int], aspect: tuple[float, float]) -> list[int]:
    """Return the largest centred part of an image with a permitted aspect: top, left, height and width."""
    height, width = image_size
    if width / height < aspect[0]:
        height = max(round(width / aspect[0]), 1)
    elif width / height > aspect[1]:
        width = max(round(height * aspect[1]), 1)
    return [(image_size[0] - height) // 2, (image_size[1] - width) // 2, height, width]


def spread(words: np.ndarray, low: float, high: float) -> np.ndarray:
    """Map random words to numbers that are uniform from low to high."""
    return low + (high - low) * ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def exp(exponents: np.ndarray) -> np.ndarray:
    """Return e to the power of each number.

    The last bit of numpy's exp differs between its versions and between processors. Sums and products do not.
    """
    result = np.ones_like(exponents)
    for term in range(EXP_TERMS, 0, -1):
        result = 1.0 + result * exponents / term
    return result


def shuffle_batches(words: np.ndarray, buffer_size: int = SHUFFLE_BUFFER) -> list[int]:
    """Return the numbers of an epoch's batches in the order in which a buffer gives them, as tf.data's shuffle does.

    words: uint64 (batches, 4). The buffer begins with the first batches, and the next one takes the place of each that
    is chosen.
    """
    waiting, chosen = list(range(min(buffer_size, len(words)))), []
    for coming, word in enumerate(words[:, 0].tolist(), start=buffer_size):
        place = word % len(waiting)
        chosen.append(waiting[place])
        waiting[place : place + 1] = [coming] if coming < len(words) else []
    return chosen


@lru_cache(maxsize=4)
def _order_batches(seed: int, epoch: int, num_batches: int) -> list[int]:
    return shuffle_batches(draw_epoch(seed, epoch, num_batches, stream=TRIES + 1))


class LocalBatches:
    """One process's share of every global batch, indexed by step from 0.

    Process r of n feeds rows r*b/n to (r+1)*b/n of a global batch of b images.
    """

    def __init__(self, spec: RunSpec, images: np.ndarray | ImageFiles, rank: int, num_processes: int):
        """images: the training images, as they are stored."""
        self.spec, self._image_size = spec, (images.shape[1], images.shape[2])
        self.num_train = len(images)
        self.steps_per_epoch = count_steps_per_epoch(self.num_train, spec.global_batch_size)
        self.num_steps = count_steps(spec, self.steps_per_epoch)
        self.local_batch_size = spec.global_batch_size // num_processes
        self._offset = rank * self.local_batch_size
        self._drawn: tuple[int, LocalBatch] | None = None
        self._ahead: tuple[int, LocalBatch] | None = None

    def __len__(self) -> int:
        return self.num_steps

    def __getitem__(self, step: int) -> LocalBatch:
        """Raise IndexError beyond the last step."""
        if not 0 <= step < self.num_steps:
            raise IndexError(step)
        epoch, step_of_epoch = divmod(step, self.steps_per_epoch)
        start = step_of_epoch * self.spec.global_batch_size + self._offset
        return self._draw(epoch + 1).part(start, start + self.local_batch_size)

    def join(self, steps: range) -> LocalBatch:
        """Concatenate the shares of consecutive steps."""
        (epoch, first), (last_epoch, last) = (divmod(step, self.steps_per_epoch) for step in (steps[0], steps[-1]))
        size = self.local_batch_size
        if epoch == last_epoch and size == self.spec.global_batch_size:
            return self._draw(epoch + 1).part(first * size, (last + 1) * size)
        return join([self[step] for step in steps])

    def epoch_of(self, step: int) -> int:
        """Return the epoch of a step. Epochs count from 1."""
        return step // self.steps_per_epoch + 1

    def draw_ahead(self, epoch: int) -> None:
        """Draw an epoch that another thread will ask for. That thread waits for the end of this call."""
        self._ahead = (epoch, self._redraw(epoch))

    def _draw(self, epoch: int) -> LocalBatch:
        """Return all images of an epoch in their order; draw them unless they were drawn last or ahead.

        Threads that call at the same time may draw the same epoch twice.
        """
        for drawn in (self._drawn, self._ahead):
            if drawn is not None and drawn[0] == epoch:
                break
        else:
            drawn = (epoch, self._redraw(epoch))
        self._drawn = drawn
        return drawn[1]

    def order_of_batches(self, epoch: int) -> list[int]:
        """Return the numbers of frozen batches in the order of an epoch. They are numbered before they are shuffled."""
        return _order_batches(self.spec.seed, epoch, self.steps_per_epoch)

    @cached_property
    def _frozen(self) -> LocalBatch:
        """All images of the first epoch, as they are before batches are shuffled."""
        return self._draw_epoch(1)

    def _redraw(self, epoch: int) -> LocalBatch:
        if not self.spec.frozen_batches:
            return self._draw_epoch(epoch)
        size = self.spec.global_batch_size
        return join([self._frozen.part(n * size, (n + 1) * size) for n in self.order_of_batches(epoch)])

    def _draw_epoch(self, epoch: int) -> LocalBatch:
        draws = draw_epoch(self.spec.seed, epoch, self.num_train)
        order = epoch_order(draws)
        return LocalBatch(order, self._draw_changes(epoch, order, draws[order]))

    def _draw_changes(self, epoch: int, order: np.ndarray, words: np.ndarray) -> Augmentations:
        """Draw how the images of an epoch are changed. words: their random words, in the order of the epoch."""
        spec, (height, width) = self.spec, self._image_size
        if spec.random_resized_crop:
            boxes = draw_boxes(spec.seed, epoch, self.num_train, self._image_size, spec.random_resized_crop)[order]
            flipped = draw_flips(words, spec.random_flip)
            return Augmentations(flipped, boxes[:, 0].copy(), boxes[:, 1].copy(), boxes[:, 2:].copy())
        crop_height, crop_width = spec.crop or self._image_size
        surplus = (height - crop_height, width - crop_width)
        return draw_changes(words, spec.random_flip, spec.random_crop_padding, surplus)
