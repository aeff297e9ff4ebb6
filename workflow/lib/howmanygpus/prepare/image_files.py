"""
Write prepared arrays as image files, each image in a file of its own.

OpenCV writes PNG, which is lossless. simplejpeg writes JPEG with quality 90, gray images as gray. RGB images have their
colour at half the resolution in both directions (4:2:0), as from cameras and most programs, so that the files resemble
those of users.
"""

import hashlib
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import simplejpeg

from howmanygpus.measure.input.description import FILES_PER_FOLDER, MANIFEST, image_name, read_description
from howmanygpus.measure.input.image_files import ImageFiles, read_jpeg
from howmanygpus.measure.input.prepared import SPLITS, PreparedData, open_data
from howmanygpus.measure.input.writing import write_prepared

QUALITY = 90
NUM_COMPARED = 256
"""Number of images whose pixels are compared before and after JPEG."""


def prepare_images(arrays: Path, form: str, folder: Path, num_threads: int) -> None:
    """Write the images of the prepared folder `arrays` as a prepared folder of image files.

    form: png or jpeg. num_threads: number of images that are encoded at the same time.
    """
    data, description = open_data(arrays), read_description(arrays)
    with write_prepared(folder, columns=("bytes",)) as writer:
        for split in SPLITS:
            files = _write_files(writer.folder, form, data, split, num_threads)
            writer.write_labels(split, getattr(data, f"{split}_labels"), files)
        encoding = _describe_encoding(writer.folder, form, data)
        manifest_sha256 = description["sha256"][MANIFEST]
        writer.describe(description | {"form": form, "arrays_manifest_sha256": manifest_sha256} | encoding)


def _write_files(folder: Path, form: str, data: PreparedData, split: str, num_threads: int) -> Iterator[tuple]:
    """Write the files of a split, and yield the SHA-256 and the size of each, in order."""
    images = getattr(data, f"{split}_images")
    write = partial(_write_file, folder, form, split, images)
    with ThreadPoolExecutor(num_threads) as threads:
        for start in range(0, len(images), FILES_PER_FOLDER):
            (folder / image_name(split, start, form)).parent.mkdir(parents=True)
            yield from threads.map(write, range(start, min(start + FILES_PER_FOLDER, len(images))))


def _write_file(folder: Path, form: str, split: str, images: np.ndarray | ImageFiles, index: int) -> tuple[str, int]:
    content = _encode(images[index], form)
    (folder / image_name(split, index, form)).write_bytes(content)
    return hashlib.sha256(content).hexdigest(), len(content)


def _encode(image: np.ndarray, form: str) -> bytes:
    """Return the content of an image's file. image: uint8 (height, width, channels), gray or RGB."""
    is_gray = image.shape[2] == 1
    if form == "jpeg":
        colours, subsampling = ("GRAY", "Gray") if is_gray else ("RGB", "420")
        return simplejpeg.encode_jpeg(np.ascontiguousarray(image), QUALITY, colours, subsampling)
    return cv2.imencode(".png", image if is_gray else cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1].tobytes()


def _describe_encoding(folder: Path, form: str, data: PreparedData) -> dict:
    if form == "png":
        return {"encoder": f"opencv {cv2.__version__}"}
    loss = _measure_loss(folder, data.train_images)
    return {"encoder": f"simplejpeg {simplejpeg.__version__}", "quality": QUALITY, "loss": loss}


def _measure_loss(folder: Path, images: np.ndarray | ImageFiles) -> dict:
    """Return the differences that JPEG causes in the first images, in levels of 0 to 255, and the PSNR in dB.

    The images are compared one by one. Memory for all of them in floating point costs more than writing the files.
    """
    count, channels = min(NUM_COMPARED, len(images)), images.shape[3]
    total, squares, most = 0, 0, 0
    for index in range(count):
        decoded = read_jpeg(str(folder / image_name("train", index, "jpeg")), channels)
        difference = np.abs(np.asarray(decoded, np.int32) - images[index])
        total, squares = total + int(difference.sum()), squares + int((difference**2).sum())
        most = max(most, int(difference.max()))
    num_levels = count * math.prod(images.shape[1:])
    psnr_db = 20 * math.log10(255 / max(math.sqrt(squares / num_levels), 1e-9))
    return {
        "compared_images": count,
        "mean_levels": total / num_levels,
        "max_levels": float(most),
        "psnr_db": psnr_db,
    }
