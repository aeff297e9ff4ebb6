"""
The targets of a step, which the loss compares with the network's outputs.

With one label per image they are the labels. With any number, the loss of a step is the mean over all known labels of
the global batch. Devices and processes have different numbers of known labels, so a mean of their means would differ
from it. Every process therefore counts the known labels of the global batch, and each target includes a weight: it is
+w for a label that the image has, -w for one that it lacks, and 0 for a missing one, with
w = images of the global batch / known labels of the global batch. The sum over an image's labels of
|target| * sigmoid cross-entropy is the image's loss. The mean of these losses over a device's images, averaged over the
devices, is the mean over the known labels.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np

from howmanygpus.measure.input.draws import LocalBatches
from howmanygpus.measure.input.prepared import MISSING, PreparedData
from howmanygpus.measure.spec import RunSpec

Batch: TypeAlias = tuple[np.ndarray, np.ndarray]


def weigh_labels(labels: np.ndarray, num_images: int, num_known: int) -> np.ndarray:
    """Return the targets of some images of a global batch, float32 (count, classes); all are 0 if no label is known.

    labels: uint8 (count, classes) with 1, 0 and MISSING. num_images, num_known: numbers of images and of known labels
    in the global batch.
    """
    weight = np.float32(num_images / num_known if num_known else 0.0)
    return np.where(labels == 1, weight, np.where(labels == MISSING, np.float32(0), -weight))


def read_targets(batches: Iterable[Batch], spec: RunSpec, data: PreparedData, first: int = 0) -> Iterator[Batch]:
    """Replace the labels of a loader's (images, labels) by targets.

    first: the step of the first batch, counted from 0.
    """
    return weigh_batches(batches, spec, data, first) if data.multi_label else iter(batches)


def weigh_batches(batches: Iterable[Batch], spec: RunSpec, data: PreparedData, first: int = 0) -> Iterator[Batch]:
    known = (np.asarray(data.train_labels) != MISSING).sum(axis=1)
    whole = LocalBatches(spec, data.train_images, rank=0, num_processes=1)
    for step, (images, labels) in enumerate(batches, start=first):
        num_known = int(known[whole[step].samples].sum())
        yield images, weigh_labels(labels, spec.global_batch_size, num_known)


def target_shape(num_images: int, num_classes: int, multi_label: bool) -> tuple[tuple[int, ...], type[np.generic]]:
    """Return shape and type of the targets of `num_images` images."""
    return ((num_images, num_classes), np.float32) if multi_label else ((num_images,), np.int32)
