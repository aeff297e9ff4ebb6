"""Find images with the same pixels in both splits or in two classes, by the hashes in the shards' records."""

from collections.abc import Iterable
from dataclasses import dataclass

from howmanygpus.prepare.sources import shorten_list

TOO_MANY = 0.5
"""Fraction of test images that are training images, above which a data set is refused."""


@dataclass(frozen=True)
class Image:
    path: str
    split: str
    label: int | tuple[int, ...]
    pixels_sha256: str


def describe_duplicates(images: Iterable[Image]) -> list[str]:
    """Return remarks on images with the same pixels. Raises ValueError if most test images are training images."""
    same: dict[str, list[Image]] = {}
    num_test = 0
    for image in images:
        same.setdefault(image.pixels_sha256, []).append(image)
        num_test += image.split == "test"
    repeated = [group for group in same.values() if len(group) > 1]
    return [*_describe_leaks(repeated, num_test), *_describe_contradictions(repeated)]


def _describe_leaks(repeated: list[list[Image]], num_test: int) -> list[str]:
    leaks = []
    for group in repeated:
        trained = [image.path for image in group if image.split == "train"]
        leaks += [f"{image.path} = {trained[0]}" for image in group if trained and image.split == "test"]
    if not leaks:
        return []
    problem = f"{len(leaks)} of {num_test} test images have the pixels of a training image ({shorten_list(leaks)})"
    if len(leaks) > TOO_MANY * num_test:
        raise ValueError(f"{problem}; give other test images, or split the images by the option `split`")
    return [f"{problem}, so that the quality is overestimated; remove them from one of the splits"]


def _describe_contradictions(repeated: list[list[Image]]) -> list[str]:
    pairs = []
    for group in repeated:
        other = next((image for image in group if image.label != group[0].label), None)
        if other:
            pairs.append(f"{group[0].path} = {other.path}")
    if not pairs:
        return []
    return [
        f"images with the same pixels in several classes: {len(pairs)} ({shorten_list(pairs)}); correct their classes"
    ]
