"""The comparisons of loader.py on images as small as those of CIFAR-10: threads, and many images at once."""

import dataclasses
import os
import time

import numpy as np

from howmanygpus.measure.input.augmentation import place
from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.spec import RunSpec

SHAPE, NUM_IMAGES = (32, 32, 3), 50_000
SETTINGS = {"random_flip": True, "random_crop_padding": 4, "prefetch": 2}


def draw_data() -> PreparedData:
    images = np.random.default_rng(1).integers(0, 256, (NUM_IMAGES, *SHAPE), np.uint8)
    labels = np.arange(NUM_IMAGES, dtype=np.int32) % 10
    return PreparedData(images, labels, images[:8], labels[:8], 10, (127.0,) * 3, (64.0,) * 3)


def load_one_at_a_time(spec: RunSpec, data: PreparedData):
    """Yield the batches of the shared loader, but change one image after the other."""
    batches = TrainingBatches(spec, data, 0, 1)
    for share in batches.shares:
        images = np.empty((len(share.samples), *SHAPE), np.uint8)
        for sample, change, image in zip(share.samples.tolist(), share.changes, images, strict=True):
            place(data.train_images[sample], image, change)
        yield images, data.train_labels[share.samples]


def rate_of_turn(batches, seconds: float, clock=time.process_time) -> float:
    """Return the images per second of a clock, which by default counts the processor time of this process."""
    num_images, started = 0, clock()
    while (elapsed_s := clock() - started) < seconds:
        num_images += len(next(batches)[0])
    return num_images / elapsed_s


def compare_small_images(usual: RunSpec, cores: list[int], options, describe) -> list[dict]:
    """Compare two threads with one by wall time on two cores, and one thread with a loop over single images.

    describe: makes a row of the rates of all pairs.
    """
    os.sched_setaffinity(0, cores)
    data, rows = draw_data(), []
    for batch_size in options.small_batches:
        spec = dataclasses.replace(usual, global_batch_size=batch_size, **SETTINGS)
        two = dataclasses.replace(spec, loader_workers=2)
        one_thread, two_threads = iter(TrainingBatches(spec, data, 0, 1)), iter(TrainingBatches(two, data, 0, 1))
        singly = load_one_at_a_time(spec, data)
        for batches in (one_thread, two_threads, singly):
            next(batches)
        names = {"input": f"arrays 32x32, batches of {batch_size}", "channels": 3}
        pairs = [
            tuple(rate_of_turn(each, options.seconds, time.perf_counter) for each in (two_threads, one_thread))
            for _ in range(options.pairs)
        ]
        rows.append(describe("one thread, by wall time", what="shared", workers=2, pairs=pairs, **names))
        pairs = [
            tuple(rate_of_turn(each, options.seconds) for each in (one_thread, singly)) for _ in range(options.pairs)
        ]
        rows.append(describe("one image at a time", what="shared", workers=1, pairs=pairs, **names))
        for batches in (one_thread, two_threads, singly):
            batches.close()
    return rows
