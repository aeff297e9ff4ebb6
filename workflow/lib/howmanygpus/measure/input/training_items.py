"""The training images of a run one by one, for loaders whose workers ask for images by position."""

from functools import cache

import numpy as np

from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.draws import Augmentation, LocalBatch
from howmanygpus.measure.input.image_files import ImageFiles


@cache
def open_array(path: str) -> np.ndarray:
    """Memory-map an array, once per process."""
    return np.load(path, mmap_mode="r").view(np.ndarray)


class TrainingItems:
    """The images that one process feeds in the whole run, in order. Pickling stores their path, not their pixels."""

    def __init__(self, batches: TrainingBatches):
        self.shares, self._labels = batches.shares, np.asarray(batches.data.train_labels)
        images = batches.data.train_images
        self.image_shape = batches.data.image_shape
        self._array = str(images.filename) if isinstance(images, np.memmap) else None
        self._files = images if isinstance(images, ImageFiles) else None
        self._last: tuple[int, LocalBatch] | None = None

    def __len__(self) -> int:
        return self.shares.num_steps * self.shares.local_batch_size

    def __getitem__(self, position: int) -> tuple[str | np.ndarray, Augmentation, np.ndarray | np.int32]:
        """The image's file or its pixels (height, width, channels), how it is changed, and its label or labels."""
        step, place = divmod(position, self.shares.local_batch_size)
        share = self._get_share(step)
        sample = int(share.samples[place])
        image = self._files.path(sample) if self._files else open_array(self._array)[sample]
        return image, share.changes[place], self._labels[sample]

    def _get_share(self, step: int) -> LocalBatch:
        """Return the share of a step. The last one is kept: a worker asks for many items of one step in turn."""
        if self._last is None or self._last[0] != step:
            self._last = (step, self.shares[step])
        return self._last[1]
