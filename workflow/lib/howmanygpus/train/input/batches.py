"""
The shared loader, which makes the batches of a run for every framework unless it uses a loader of its own.

Images come from arrays or files; each is flipped, cropped and resized on its way into the batch.
"""

import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future

import numpy as np

from howmanygpus.train.input.changing import ManyCrops, ManyImages, is_small, place
from howmanygpus.train.input.draws import Share, Shares, join
from howmanygpus.train.input.image_files import ImageFiles, start_in_threads
from howmanygpus.train.input.prepared import PreparedData
from howmanygpus.train.spec import RunSpec

BYTES_PER_WORKER = 2**22
"""Workers that have less of a batch than this load several batches at the same time."""
BYTES_PER_TASK, BATCHES_PER_TASK = 2**21, 8
"""A task loads as many whole batches as have so many bytes, one at least and at most so many batches."""


class TrainingBatches:
    """One process's share of every global batch, in order, for the whole run. Frameworks' loaders derive from it."""

    def __init__(self, spec: RunSpec, data: PreparedData, rank: int, num_processes: int):
        self.spec, self.data = spec, data
        self.shares = Shares(spec, data.train_images, rank, num_processes)
        self.steps_per_epoch, self.num_steps = self.shares.steps_per_epoch, self.shares.num_steps
        self.num_workers = spec.loader_workers * (spec.num_gpus // num_processes)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (images, labels): uint8 (local batch, height, width, channels), and labels as PreparedData has them."""
        return self.load_steps(range(self.num_steps))

    def load_steps(self, chosen: range) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the batches of some consecutive steps, by the shared loader. Steps count from 0."""
        loading, labels = Loading(self), np.asarray(self.data.train_labels)
        begun: deque[tuple[np.ndarray, list[Future], np.ndarray]] = deque()
        for first in range(chosen.start, chosen.stop, loading.batches_per_task):
            steps = range(first, min(first + loading.batches_per_task, chosen.stop))
            share = join([self.shares[step] for step in steps])
            begun.append((*loading.begin(share), labels[share.samples]))
            if len(begun) == loading.num_at_once:
                yield from self._finish(*begun.popleft())
        while begun:
            yield from self._finish(*begun.popleft())

    def _finish(
        self, images: np.ndarray, futures: list[Future], labels: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Wait until the images of some batches are complete and yield the batches. A worker's exception is raised."""
        for future in futures:
            future.result()
        size = self.shares.local_batch_size
        for start in range(0, len(images), size):
            yield images[start : start + size], labels[start : start + size]


class Loading:
    """Reads and changes the images of batches, in as many threads as there are workers.

    num_at_once: how many tasks are begun before the first of them has to be complete. batches_per_task: consecutive
    batches that are loaded as one. With one task of one batch, all workers share each batch. If that leaves a worker
    less than BYTES_PER_WORKER, fewer workers share a batch and they load several batches at the same time, since
    otherwise the start of so short a task takes longer than the task. With `prefetch: 0` nothing is loaded ahead, so
    that all workers always share one batch.
    """

    def __init__(self, batches: TrainingBatches):
        spec, source = batches.spec, batches.data.train_images
        # A plain array over the memory of a memmap: indexing a memmap costs more.
        self._source: np.ndarray | ImageFiles = source if isinstance(source, ImageFiles) else np.asarray(source)
        self._num_workers = self._num_parts = batches.num_workers
        self.num_at_once = self.batches_per_task = 1
        self._image_shape = batches.data.image_shape
        self._many = None if isinstance(self._source, ImageFiles) else change_many(self._source, spec)
        if self._many is not None:
            batch_bytes = batches.shares.local_batch_size * math.prod(self._image_shape)
            parts = max(1, batch_bytes // BYTES_PER_WORKER)
            if spec.prefetch and parts < self._num_workers:
                # One more task than the workers do, so that none waits while a complete batch is fetched.
                self._num_parts, self.num_at_once = parts, math.ceil(self._num_workers / parts) + 1
                self.batches_per_task = min(max(1, BYTES_PER_TASK // batch_bytes), BATCHES_PER_TASK)

    def begin(self, share: Share) -> tuple[np.ndarray, list[Future]]:
        """Return the images of a share, which are complete when the futures are done. One worker completes them."""
        images = np.empty((len(share.samples), *self._image_shape), np.uint8)

        def fill(start: int, stop: int) -> None:
            self._fill(share.part(start, stop), images[start:stop])

        return images, start_in_threads(fill, len(images), self._num_parts, self._num_workers)

    def _fill(self, share: Share, images: np.ndarray) -> None:
        if self._many is not None:
            self._many.fill(share, images)
            return
        for sample, change, target in zip(share.samples.tolist(), share.changes, images, strict=True):
            place(self._source[sample], target, change)


def change_many(source: np.ndarray, spec: RunSpec) -> ManyImages | ManyCrops | None:
    """Return what changes many images of an array by each call, or None if one at a time is faster or the only way."""
    if spec.crop_size is None:
        is_changed = spec.random_flip or spec.random_crop_padding
        return ManyImages(source, spec.random_crop_padding) if is_small(source) or not is_changed else None
    is_inside = not (spec.random_resized_crop or spec.random_crop_padding)
    return ManyCrops(source, spec.crop_size) if is_small(source) and is_inside else None


def evaluation_batches(
    images: np.ndarray | ImageFiles, batch_size: int, rank: int, num_processes: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (images, samples) of one process's share of a split, every image exactly once over all processes.

    Each batch has batch_size // num_processes images, so that no framework compiles a second shape, and all
    processes take the same number of steps. A short batch is filled with images from the beginning of the split, so
    that its statistics are those of as many images as in other batches; `samples` (int64) is -1 for them.
    """
    local_size = batch_size // num_processes
    for start in range(0, len(images), batch_size):
        samples = np.arange(start + rank * local_size, start + (rank + 1) * local_size)
        yield images[samples % len(images)], np.where(samples < len(images), samples, -1)
