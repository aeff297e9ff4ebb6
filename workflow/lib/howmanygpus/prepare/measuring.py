"""
Measure the speed of preparing a data set on this machine, and the loss of quality, on a sample of its images.

Rates are per CPU-second of one core. The libraries take turns image by image, so that other load slows all of them.
Pillow-SIMD takes part, in the process of its own environment, if that is there.
"""

import io
import math
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import cv2
import numpy as np
import pandas as pd
from PIL import Image

from howmanygpus.measure.host.devices import describe_host
from howmanygpus.prepare.images import FILTERS, LIBRARIES, PILLOW_SIMD, BadImageError
from howmanygpus.prepare.images.decoding import decode
from howmanygpus.prepare.images.headers import read_file
from howmanygpus.prepare.images.resizing import PILLOW_FILTERS, encode_jpeg, resize
from howmanygpus.prepare.listing import Task
from howmanygpus.prepare.other_python import OtherPython, call_here, decode_and_resize

ROUNDS = 3
QUALITIES = (75, 90, 95)
"""Qualities of JPEG that are compared."""
Way = Callable[[Any], tuple[float, Any]]
"""Returns the CPU seconds of what it does with an image, and the result."""
COLUMNS = (
    "part",
    "name",
    "images_per_s",
    "mb_per_s",
    "kb_per_image",
    "psnr_db",
    "mean_difference",
    "num_images",
    "machine",
)


def measure_preparation(task: Task, num_images: int, pillow_simd: str | None = None) -> pd.DataFrame:
    """Return one row for each library, filter and file format; columns that do not apply to a row are empty.

    pillow_simd: the Python of an environment with Pillow-SIMD, if there is one.
    """
    sample = _read_sample(task, num_images)
    with ExitStack() as stack:
        simd = stack.enter_context(OtherPython(pillow_simd)) if pillow_simd else None
        rows = [*_measure_libraries(task, sample, simd), *_measure_filters(task, sample, simd)]
    rows += _measure_formats(task, sample)
    common = {"num_images": len(sample), "machine": describe_host([])["cpu_model"]}
    return pd.DataFrame([row | common for row in rows], columns=COLUMNS)


def _read_sample(task: Task, num_images: int) -> list[bytes]:
    """Contents of files that can be decoded, taken at equal distances from the listing."""
    entries = task.listing.entries
    sample = []
    for entry in entries[:: max(1, len(entries) // num_images)][:num_images]:
        try:
            data = read_file(task.listing.folder / entry.path)
            _decode(task, data)
            sample.append(data)
        except BadImageError:
            continue
    if not sample:
        raise ValueError(f"no image of the sample of {task.listing.folder} can be read")
    return sample


def _decode(task: Task, data: bytes, library: str = "fast") -> np.ndarray:
    return decode(data, task.preparation.channels, library, task.preparation.levels)


def _measure_libraries(task: Task, sample: list[bytes], simd: OtherPython | None) -> list[dict]:
    """Speed of decoding and resizing together, with the options of the data set."""
    preparation, (height, width, _) = task.preparation, task.image_shape
    options: dict[str, Any] = {"channels": preparation.channels, "levels": preparation.levels}
    options |= {"size": (height, width), "filter_name": preparation.filter}
    ways: dict[str, Way] = {name: partial(call_here, decode_and_resize, library=name, **options) for name in LIBRARIES}
    if simd:
        ways[PILLOW_SIMD] = partial(simd.call, decode_and_resize, library="pillow", **options)
    rates = _time_in_turns(ways, sample)
    mb_per_image = sum(map(len, sample)) / len(sample) / 1e6
    return [
        {"part": "library", "name": name, "images_per_s": rate, "mb_per_s": rate * mb_per_image}
        for name, rate in rates.items()
    ]


def _measure_filters(task: Task, sample: list[bytes], simd: OtherPython | None) -> list[dict]:
    """Speed and error of resizing alone.

    The reference is Pillow's LANCZOS in float32. OpenCV's LINEAR is included to show the effect of aliasing.
    """
    height, width, _ = task.image_shape
    images = [_decode(task, data) for data in sample]
    if all(image.shape[:2] == (height, width) for image in images):
        return []
    size = (height, width)
    ways: dict[str, Way] = {name: partial(call_here, resize, size=size, filter_name=name) for name in FILTERS}
    if simd:
        for name in PILLOW_FILTERS:
            ways[f"{name}, Pillow-SIMD"] = partial(simd.call, resize, size=size, filter_name=name)
    ways["OpenCV LINEAR"] = partial(call_here, _resize_linear, height=height, width=width)
    rates = _time_in_turns(ways, images)
    references = [_resize_in_float(image, height, width) for image in images]
    return [
        {
            "part": "filter",
            "name": name,
            "images_per_s": rates[name],
            **_compare((way(image)[1] for image in images), references),
        }
        for name, way in ways.items()
    ]


def _measure_formats(task: Task, sample: list[bytes]) -> list[dict]:
    """Size of prepared images as files, the error of JPEG, and the speed of reading the files."""
    height, width, channels = task.image_shape
    images = [resize(_decode(task, data), (height, width), task.preparation.filter) for data in sample]
    formats = {"PNG": [_encode_png(image) for image in images]}
    formats |= {f"JPEG {quality}": [encode_jpeg(image, quality) for image in images] for quality in QUALITIES}
    rows = []
    for name, files in formats.items():
        rate = _time_in_turns({name: partial(call_here, decode, channels=channels)}, files)[name]
        quality = _compare((decode(data, channels) for data in files), images)
        kb_per_image = sum(map(len, files)) / len(files) / 1e3
        rows.append({"part": "format", "name": name, "images_per_s": rate, "kb_per_image": kb_per_image, **quality})
    return rows


def _time_in_turns(ways: dict[str, Way], sample: list) -> dict[str, float]:
    """Return the images per CPU-second of each way, over all rounds."""
    for way in ways.values():
        way(sample[0])
    cpu_s = dict.fromkeys(ways, 0.0)
    for _ in range(ROUNDS):
        for item in sample:
            for name, way in ways.items():
                cpu_s[name] += way(item)[0]
    return {name: ROUNDS * len(sample) / max(seconds, 1e-9) for name, seconds in cpu_s.items()}


def _compare(images, references) -> dict[str, float]:
    """Return PSNR over all pixels, NaN if all are equal, and the mean absolute difference in levels."""
    square, absolute, count = 0.0, 0.0, 0
    for image, reference in zip(images, references, strict=True):
        difference = image.astype(np.float64) - reference
        square += float((difference**2).sum())
        absolute += float(np.abs(difference).sum())
        count += difference.size
    psnr_db = 10 * math.log10(255**2 * count / square) if square else math.nan
    return {"psnr_db": psnr_db, "mean_difference": absolute / count}


def _resize_linear(image: np.ndarray, height: int, width: int) -> np.ndarray:
    resized = cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
    return resized if resized.ndim == 3 else resized[..., None]


def _resize_in_float(image: np.ndarray, height: int, width: int) -> np.ndarray:
    channels = [
        np.asarray(Image.fromarray(channel.astype(np.float32)).resize((width, height), Image.Resampling.LANCZOS))
        for channel in np.moveaxis(image, -1, 0)
    ]
    return np.stack(channels, axis=-1).clip(0, 255)


def _encode_png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image.squeeze()).save(file, "PNG")
    return file.getvalue()
