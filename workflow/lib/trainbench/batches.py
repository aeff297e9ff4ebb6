"""
Which images form each batch, and what happens to them on the way.

Order and augmentation are counter-based draws: block i of a Philox stream keyed by (seed, epoch) belongs to
sample i, so they do not depend on framework, device count, or the order in which anybody asks.
"""

from collections.abc import Iterator

import numpy as np

from trainbench.data import PreparedData
from trainbench.schedule import count_steps, count_steps_per_epoch
from trainbench.spec import RunSpec

WORDS_PER_BLOCK = 4
"""64-bit words that one step of Philox4x64's counter yields."""


def draw_epoch(seed: int, epoch: int, num_samples: int) -> np.ndarray:
    """Random words of one epoch: uint64, (num_samples, 4). Row i is sample i's, whatever num_samples is."""
    words = np.random.Philox(key=[seed, epoch]).random_raw(num_samples * WORDS_PER_BLOCK)
    return words.reshape(num_samples, WORDS_PER_BLOCK)


def epoch_order(draws: np.ndarray) -> np.ndarray:
    """Permutation of the samples: they are sorted by their first word."""
    return np.argsort(draws[:, 0], kind="stable")


def augment(images: np.ndarray, draws: np.ndarray, random_flip: bool, crop_padding: int) -> np.ndarray:
    """Flip and crop each image by its own draws.

    images: uint8 (batch, height, width, channels); draws: uint64 (batch, 4).
    The low bit of word 1 flips left to right; words 2 and 3 place a crop of the original size in the image
    padded by crop_padding zero pixels on each side. Returns a new array of the same shape.
    """
    batch_size, height, width, channels = images.shape
    if random_flip:
        flipped = (draws[:, 1] & np.uint64(1)).astype(bool)
        images = np.where(flipped[:, None, None, None], images[:, :, ::-1], images)
    if crop_padding:
        positions = np.uint64(2 * crop_padding + 1)
        tops, lefts = (draws[:, 2] % positions).astype(int), (draws[:, 3] % positions).astype(int)
        padded = np.zeros((batch_size, height + 2 * crop_padding, width + 2 * crop_padding, channels), np.uint8)
        padded[:, crop_padding : crop_padding + height, crop_padding : crop_padding + width] = images
        images = np.empty((batch_size, height, width, channels), np.uint8)
        for i, (top, left) in enumerate(zip(tops, lefts, strict=True)):
            images[i] = padded[i, top : top + height, left : left + width]
    return images


class TrainingBatches:
    """One process's share of every global batch, in order, for the whole run.

    Process r of n feeds rows r*b/n to (r+1)*b/n of a global batch of b images.
    """

    def __init__(self, spec: RunSpec, data: PreparedData, rank: int, num_processes: int):
        self.spec, self.data = spec, data
        num_train = len(data.train_labels)
        self.steps_per_epoch = count_steps_per_epoch(num_train, spec.global_batch_size)
        self.num_steps = count_steps(spec, self.steps_per_epoch)
        self.local_batch_size = spec.global_batch_size // num_processes
        self.offset = rank * self.local_batch_size

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (images, labels): uint8 (local batch, height, width, channels), int32 (local batch,)."""
        spec, data = self.spec, self.data
        for step in range(self.num_steps):
            epoch, step_of_epoch = divmod(step, self.steps_per_epoch)
            if step_of_epoch == 0:
                draws = draw_epoch(spec.seed, epoch + 1, len(data.train_labels))
                order = epoch_order(draws)
            start = step_of_epoch * spec.global_batch_size + self.offset
            samples = order[start : start + self.local_batch_size]
            images = augment(data.train_images[samples], draws[samples], spec.random_flip, spec.random_crop_padding)
            yield images, data.train_labels[samples]


def evaluation_batches(
    images: np.ndarray, batch_size: int, rank: int, num_processes: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (images, samples) of one process's share of a split, every image exactly once over all processes.

    Each batch has batch_size // num_processes images, so that no framework compiles a second shape, and all
    processes take equally many steps. Short batches repeat image 0; `samples` (int64) bears -1 there.
    """
    local_size = batch_size // num_processes
    for start in range(0, len(images), batch_size):
        samples = np.arange(start + rank * local_size, start + (rank + 1) * local_size)
        samples = np.where(samples < len(images), samples, -1)
        yield images[np.maximum(samples, 0)], samples
