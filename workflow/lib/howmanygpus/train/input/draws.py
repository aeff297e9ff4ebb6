"""
Draw which images form each batch and how each is changed, alike for every loader, framework and device count.

Order and augmentation are counter-based draws: block i of a Philox stream keyed by (seed, epoch) belongs to sample i.
They therefore do not depend on the framework, the device count, or the order in which samples are asked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from howmanygpus.train.loop.schedule import count_steps, count_steps_per_epoch
from howmanygpus.train.spec import RunSpec

WORDS_PER_BLOCK = 4
"""Number of 64-bit words that one step of Philox4x64's counter yields."""


def draw_epoch(seed: int, epoch: int, num_samples: int) -> np.ndarray:
    """Random words of one epoch, uint64 (num_samples, 4). Row i is sample i's, whatever num_samples is."""
    words = np.random.Philox(key=[seed, epoch]).random_raw(num_samples * WORDS_PER_BLOCK)
    return words.reshape(num_samples, WORDS_PER_BLOCK)


def epoch_order(draws: np.ndarray) -> np.ndarray:
    """Permutation that sorts the samples by their first word."""
    return np.argsort(draws[:, 0], kind="stable")


class Change(NamedTuple):
    """How one image is changed: it is flipped left to right or not, and then moved.

    Pixel (row, column) moves to (row - top, column - left). Pixels that leave the image are lost; empty ones become 0.
    """

    flipped: bool
    top: int
    left: int


@dataclass(frozen=True)
class Changes:
    """How each of several images is changed: the fields of Change as arrays, bool and int64 (count,)."""

    flipped: np.ndarray
    top: np.ndarray
    left: np.ndarray

    def __getitem__(self, index: int) -> Change:
        return Change(bool(self.flipped[index]), int(self.top[index]), int(self.left[index]))

    def __iter__(self) -> Iterator[Change]:
        return map(Change, self.flipped.tolist(), self.top.tolist(), self.left.tolist())


@dataclass(frozen=True)
class Share:
    """What one process feeds at one step: the indices of training images, int64 (count,), and how each is changed."""

    samples: np.ndarray
    changes: Changes

    def part(self, start: int, stop: int) -> "Share":
        """The images start to stop."""
        changes, images = self.changes, slice(start, stop)
        return Share(self.samples[images], Changes(changes.flipped[images], changes.top[images], changes.left[images]))


def join(shares: list[Share]) -> Share:
    """Return the images of several shares one after the other."""
    if len(shares) == 1:
        return shares[0]
    changes = [share.changes for share in shares]
    fields = ([each.flipped for each in changes], [each.top for each in changes], [each.left for each in changes])
    return Share(np.concatenate([share.samples for share in shares]), Changes(*map(np.concatenate, fields)))


def draw_changes(words: np.ndarray, random_flip: bool, crop_padding: int) -> Changes:
    """Turn random words into changes. words: uint64 (count, 4), a row for each image.

    The low bit of word 1 flips left to right; words 2 and 3 place a crop of the original size in the image
    padded by crop_padding zero pixels on each side.
    """
    flipped = (words[:, 1] & np.uint64(random_flip)).astype(bool)
    places = (words[:, 2:] % np.uint64(2 * crop_padding + 1)).astype(np.int64) - crop_padding
    return Changes(flipped, places[:, 0].copy(), places[:, 1].copy())


class Shares:
    """One process's share of every global batch, indexed by step from 0.

    Process r of n feeds rows r*b/n to (r+1)*b/n of a global batch of b images.
    """

    def __init__(self, spec: RunSpec, num_train: int, rank: int, num_processes: int):
        self.spec, self.num_train = spec, num_train
        self.steps_per_epoch = count_steps_per_epoch(num_train, spec.global_batch_size)
        self.num_steps = count_steps(spec, self.steps_per_epoch)
        self.local_batch_size = spec.global_batch_size // num_processes
        self._offset = rank * self.local_batch_size
        self._drawn: tuple[int, Share] | None = None

    def __len__(self) -> int:
        return self.num_steps

    def __getitem__(self, step: int) -> Share:
        """Raise IndexError beyond the last step."""
        if not 0 <= step < self.num_steps:
            raise IndexError(step)
        epoch, step_of_epoch = divmod(step, self.steps_per_epoch)
        start = step_of_epoch * self.spec.global_batch_size + self._offset
        return self._draw(epoch + 1).part(start, start + self.local_batch_size)

    def _draw(self, epoch: int) -> Share:
        """Draw all images of an epoch in their order, or return the epoch drawn last.

        Threads that call at once may draw the same epoch twice.
        """
        if self._drawn is None or self._drawn[0] != epoch:
            draws = draw_epoch(self.spec.seed, epoch, self.num_train)
            order = epoch_order(draws)
            changes = draw_changes(draws[order], self.spec.random_flip, self.spec.random_crop_padding)
            self._drawn = (epoch, Share(order, changes))
        return self._drawn[1]
