"""
The loaders of a run: the shared loader, or the loader of a framework, written as its users write one.

A framework's loader is a module of its family that defines LOADER, a subclass of TrainingBatches. It yields the same
images in the same order with the same changes, through the framework's own decoders, workers and queues. One pass
covers all epochs of a run, so that workers never stop and start; the cost of a restart between epochs is not included.

The training images of a run one by one, for loaders whose workers ask for images by position.

Start the worker processes of loaders, and make them end with the run.
"""

import importlib
import multiprocessing
import os
from functools import cache
from multiprocessing import forkserver

import numpy as np

from howmanygpus.measure.host.processes import die_with_parent
from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.draws import Augmentation, LocalBatch
from howmanygpus.measure.input.image_files import ImageFiles

SHARED = "shared"
"""Name of the shared loader."""


def load_loader(name: str) -> type[TrainingBatches]:
    """Return the class that loads the batches. name: `shared`, or a module below measure/frameworks/."""
    return (
        TrainingBatches if name == SHARED else importlib.import_module(f"howmanygpus.measure.frameworks.{name}").LOADER
    )


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


# The training process and the fork server below import this module. Without it the server would outlive a killed
# training process, since its workers keep open the pipe whose end it waits for.
die_with_parent()

_forking = os.getpid()
"""The process that forked last, by which its child knows its parent"""


def _note_parent() -> None:
    global _forking
    _forking = os.getpid()


# Handlers of libraries may run in the child before this one, for seconds in which the parent may die.
os.register_at_fork(before=_note_parent, after_in_child=lambda: die_with_parent(parent=_forking))


def use_clean_workers(module: str) -> None:
    """Fork worker processes from a server that has imported `module` and done nothing else.

    Forks of the training process would inherit the locks of its threads, its connections to other processes, and its
    devices. Call this from a thread that lasts as long as the run: the kernel ends the server when the thread that
    started it ends.
    """
    multiprocessing.set_start_method("forkserver", force=True)
    multiprocessing.set_forkserver_preload([module])
    forkserver.ensure_running()
