"""Read the images of a run once before anything is timed, so that no epoch reads them from a disk."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from howmanygpus.measure.host.limits import compute_free_bytes
from howmanygpus.measure.input.draws import LocalBatches
from howmanygpus.measure.input.image_files import ImageFiles
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.spec import RunSpec

MEMORY_FRAC = 0.8
"""Largest fraction of the free memory that images may fill. The rest is for the training."""
CHUNK_BYTES = 2**23


def list_files(spec: RunSpec, data: PreparedData) -> list[str]:
    """Return the files with the images that a run reads. A run of less than an epoch reads only some."""
    files: list[str] = []
    train, test = data.train_images, data.test_images
    if isinstance(train, ImageFiles):
        shares = LocalBatches(spec, train, 0, 1)
        steps = range(min(shares.num_steps, shares.steps_per_epoch))
        is_part = shares.num_steps < shares.steps_per_epoch
        samples: Iterable[int] = (
            (sample for step in steps for sample in shares[step].samples) if is_part else range(len(train))
        )
        files += [train.path(sample) for sample in samples]
    if isinstance(test, ImageFiles):
        files += [test.path(sample) for sample in range(len(test))]
    arrays = (getattr(images, "filename", None) for images in (train, test))
    return files + [str(path) for path in arrays if path]


def read_file(path: str) -> None:
    with open(path, "rb", buffering=0) as file:
        while file.read(CHUNK_BYTES):
            pass


def read_images(spec: RunSpec, data: PreparedData, num_threads: int) -> bool:
    """Read every image file of the run once, and return whether memory holds them.

    If they do not fit, nothing is read: each epoch reads from the disk, and the first one finds less in memory than
    the others.
    """
    files = list_files(spec, data)
    if sum(Path(path).stat().st_size for path in files) > MEMORY_FRAC * compute_free_bytes():
        return False
    with ThreadPoolExecutor(num_threads) as threads:
        for _ in threads.map(read_file, files):
            pass
    return True
