"""
The shared loader, which makes the batches of a run for every framework unless it uses a loader of its own.

Images come from arrays or files; each is flipped, cropped and resized on its way into the batch.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import cached_property, partial

import numpy as np

from howmanygpus.measure.input.augmentation import ManyCrops, ManyImages, PaddedImages, is_copied, is_small, place
from howmanygpus.measure.input.draws import LocalBatch, LocalBatches
from howmanygpus.measure.input.image_files import ImageFiles, start_in_thread, start_in_threads
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.spec import RunSpec

BYTES_PER_WORKER = 2**24
"""If a worker's part of a batch would be smaller than this, workers load several batches at the same time."""
BYTES_PER_TASK, BATCHES_PER_TASK = 2**24, 64
"""A task loads at least one whole batch, and more as long as they stay within this many bytes and this many batches."""


class WorkerClock:
    """Seconds that the workers of the shared loader have worked, and the number of images that they have loaded."""

    def __init__(self) -> None:
        self._seconds, self._images, self._lock = 0.0, 0, threading.Lock()

    def add(self, started: float, num_images: int) -> None:
        """Count a piece of work that ends now. started: by time.perf_counter."""
        elapsed_s = time.perf_counter() - started
        with self._lock:
            self._seconds += elapsed_s
            self._images += num_images

    @property
    def s_per_image(self) -> float | None:
        """Seconds of one worker per image; None before the first one."""
        return self._seconds / self._images if self._images else None


class TrainingBatches:
    """One process's share of every global batch, in order, for the whole run. Frameworks' loaders derive from it."""

    def __init__(self, spec: RunSpec, data: PreparedData, rank: int, num_processes: int):
        self.spec, self.data = spec, data
        self.shares = LocalBatches(spec, data.train_images, rank, num_processes)
        self.steps_per_epoch, self.num_steps = self.shares.steps_per_epoch, self.shares.num_steps
        self.num_workers = spec.loader_workers * (spec.num_gpus // num_processes)
        self.worker_clock = WorkerClock()

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (images, labels): uint8 (local batch, height, width, channels), and labels as PreparedData has them."""
        return self.load_steps(range(self.num_steps))

    @cached_property
    def many(self) -> PaddedImages | ManyImages | ManyCrops | None:
        """The object that changes many images per call; None if images are changed one at a time."""
        source = self.data.train_images
        return None if isinstance(source, ImageFiles) else change_many(np.asarray(source), self.spec)

    def prepare(self) -> None:
        """Copy the images from which the shared loader fills batches, if it needs copies, before any clock starts."""
        _ = self.many

    def load_steps(self, chosen: range) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the batches of some consecutive steps, by the shared loader. Steps count from 0."""
        loading, labels = BatchReader(self, chosen), np.asarray(self.data.train_labels)
        begun: deque[tuple[Callable[[], np.ndarray], np.ndarray]] = deque()
        for first in range(chosen.start, chosen.stop, loading.batches_per_task):
            share = loading.get_share(range(first, min(first + loading.batches_per_task, chosen.stop)))
            begun.append((loading.begin(share), labels[share.samples]))
            if len(begun) == loading.num_at_once:
                yield from self._finish(*begun.popleft())
        while begun:
            yield from self._finish(*begun.popleft())

    def _finish(
        self, wait_for_images: Callable[[], np.ndarray], labels: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Wait until the images of some batches are complete and yield the batches. A worker's exception is raised."""
        images, size = wait_for_images(), self.shares.local_batch_size
        for start in range(0, len(images), size):
            yield images[start : start + size], labels[start : start + size]


class BatchReader:
    """Reads and changes the images of batches, in as many threads as there are workers.

    num_at_once: number of tasks that are begun before the first of them has to be complete. batches_per_task: number of
    consecutive batches that one task loads. With one task of one batch, all workers share each batch. If a worker's
    part would then be smaller than BYTES_PER_WORKER, fewer workers share a batch, and several batches are loaded at the
    same time, because starting so short a task takes longer than the task itself. One worker then also draws the next
    epoch, so that the others need not wait for it. With `prefetch: 0` nothing is loaded ahead, so all workers always
    share one batch.
    """

    def __init__(self, batches: TrainingBatches, chosen: range):
        """chosen: the consecutive steps that are loaded."""
        spec, source = batches.spec, batches.data.train_images
        # A plain array over the memory of a memmap: indexing a memmap costs more.
        self._source: np.ndarray | ImageFiles = source if isinstance(source, ImageFiles) else np.asarray(source)
        self._shares, self._chosen = batches.shares, chosen
        self._num_workers = self._num_parts = batches.num_workers
        self.num_at_once = self.batches_per_task = 1
        self._image_shape = batches.data.image_shape
        self._many, self._clock = batches.many, batches.worker_clock
        self._draws: tuple[int, Future[None]] | None = None
        if self._many is not None:
            batch_bytes = batches.shares.local_batch_size * math.prod(self._image_shape)
            parts = max(1, batch_bytes // BYTES_PER_WORKER)
            if spec.prefetch and parts < self._num_workers:
                # One task more than the workers can run, so that no worker idles while a complete batch is fetched.
                self._num_parts, self.num_at_once = parts, math.ceil(self._num_workers / parts) + 1
                self.batches_per_task = min(max(1, BYTES_PER_TASK // batch_bytes), BATCHES_PER_TASK)

    def get_share(self, steps: range) -> LocalBatch:
        """Return the images to load for some steps. If tasks run ahead, a worker begins to draw the next epoch."""
        epoch = self._shares.epoch_of(steps[-1])
        if self._draws is not None and self._draws[0] == epoch:
            self._draws[1].result()
        is_last = epoch == self._shares.epoch_of(self._chosen[-1])
        if self.num_at_once > 1 and not is_last and (self._draws is None or self._draws[0] <= epoch):
            self._draws = (epoch + 1, start_in_thread(lambda: self._shares.draw_ahead(epoch + 1), self._num_workers))
        return self._shares.join(steps)

    def begin(self, share: LocalBatch) -> Callable[[], np.ndarray]:
        """Begin to load the images of a share. Return a function that waits for them and returns them."""
        if isinstance(self._many, PaddedImages) and self._num_parts == 1:
            take = partial(self._take, self._many, share)
            if self._num_workers > 1:
                return start_in_thread(take, self._num_workers).result
            images = take()
            return lambda: images
        images = np.empty((len(share.samples), *self._image_shape), np.uint8)

        def fill(start: int, stop: int) -> None:
            self._fill(share.part(start, stop), images[start:stop])

        futures = start_in_threads(fill, len(images), self._num_parts, self._num_workers)

        def wait() -> np.ndarray:
            for future in futures:
                future.result()
            return images

        return wait

    def _take(self, many: PaddedImages, share: LocalBatch) -> np.ndarray:
        started = time.perf_counter()
        images = many.take(share)
        self._clock.add(started, len(images))
        return images

    def _fill(self, share: LocalBatch, images: np.ndarray) -> None:
        started = time.perf_counter()
        if self._many is not None:
            self._many.fill(share, images)
        else:
            for sample, change, target in zip(share.samples.tolist(), share.changes, images, strict=True):
                place(self._source[sample], target, change)
        self._clock.add(started, len(images))


def change_many(source: np.ndarray, spec: RunSpec) -> PaddedImages | ManyImages | ManyCrops | None:
    """Return an object that changes many images per call; None if one at a time is faster or the only way."""
    if spec.crop_size is None:
        is_changed = spec.random_flip or spec.random_crop_padding
        if is_changed and is_small(source) and is_copied(source, spec.random_flip, spec.random_crop_padding):
            return PaddedImages(source, spec.random_flip, spec.random_crop_padding)
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
