"""
The shared loader, which makes the batches of a run for every framework unless it uses a loader of its own.

Images come from arrays or files; each is flipped and cropped on its way into the batch.
"""

from collections.abc import Iterator

import cv2
import numpy as np

from howmanygpus.train.input.draws import Change, Share, Shares
from howmanygpus.train.input.image_files import ImageFiles, fill_in_threads
from howmanygpus.train.input.prepared import PreparedData
from howmanygpus.train.spec import RunSpec


def place(image: np.ndarray, target: np.ndarray, change: Change) -> None:
    """Write a changed image into `target`; both are uint8 (height, width, channels)."""
    flipped, top, left = change
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


class TrainingBatches:
    """One process's share of every global batch, in order, for the whole run. Frameworks' loaders derive from it."""

    def __init__(self, spec: RunSpec, data: PreparedData, rank: int, num_processes: int):
        self.spec, self.data = spec, data
        self.shares = Shares(spec, len(data.train_labels), rank, num_processes)
        self.steps_per_epoch, self.num_steps = self.shares.steps_per_epoch, self.shares.num_steps
        self.num_workers = spec.loader_workers * (spec.num_gpus // num_processes)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (images, labels): uint8 (local batch, height, width, channels), int32 (local batch,)."""
        for step in range(self.num_steps):
            share = self.shares[step]
            # No reference to a batch is kept here, so that its memory is free for the next one once its user drops it.
            yield self._load(share), self.data.train_labels[share.samples]

    def _load(self, share: Share) -> np.ndarray:
        source = self.data.train_images
        if isinstance(source, np.memmap):
            # A plain array over the same memory: indexing a memmap costs more.
            source = source.view(np.ndarray)
        images = np.empty((len(share.samples), *source.shape[1:]), np.uint8)
        changed = self.spec.random_flip or self.spec.random_crop_padding
        copied = source if isinstance(source, np.ndarray) and not changed else None

        def fill(start: int, stop: int) -> None:
            if copied is not None:
                # In the mode "raise", numpy would copy everything a second time.
                np.take(copied, share.samples[start:stop], axis=0, out=images[start:stop], mode="clip")
                return
            for i in range(start, stop):
                place(source[share.samples[i]], images[i], share.changes[i])

        fill_in_threads(fill, len(images), self.num_workers)
        return images


def evaluation_batches(
    images: np.ndarray | ImageFiles, batch_size: int, rank: int, num_processes: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (images, samples) of one process's share of a split, every image exactly once over all processes.

    Each batch has batch_size // num_processes images, so that no framework compiles a second shape, and all
    processes take the same number of steps. Short batches are filled with image 0, for which `samples` (int64) is -1.
    """
    local_size = batch_size // num_processes
    for start in range(0, len(images), batch_size):
        samples = np.arange(start + rank * local_size, start + (rank + 1) * local_size)
        samples = np.where(samples < len(images), samples, -1)
        yield images[np.maximum(samples, 0)], samples
