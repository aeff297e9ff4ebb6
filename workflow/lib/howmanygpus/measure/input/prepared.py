"""
Read a prepared folder: images as memory-mapped uint8 arrays or as files, labels, and the description beside them.

A prepared folder contains {train,test}_labels.npy, manifest.tsv (one line per image with its split, label and SHA-256)
and dataset.json (shape, counts, normalisation, and the hashes of these files). The images are either arrays,
{train,test}_images.npy, or files of their own in images/; the manifest then also has the size of each file.
`writing.py` writes such a folder.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from howmanygpus.measure.input.description import read_description
from howmanygpus.measure.input.image_files import ImageFiles, centre

SPLITS = ("train", "test")
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
NORMALIZATIONS: dict[str, tuple[Any, Any]] = {
    "imagenet": ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
    "symmetric": (127.5, 127.5),
}
"""Mean and standard deviation of pixel values from 0 to 255: one per channel, or one for all channels.

`imagenet`: 255 times (0.485, 0.456, 0.406) and (0.229, 0.224, 0.225), by which torchvision normalises images.
"""
MISSING = 255
"""Value of an unknown label, if images have any number of labels."""


@dataclass(frozen=True)
class PreparedData:
    """Images are uint8 (count, height, width, channels).

    Labels are int32 (count,). If an image has any number of labels, they are uint8 (count, num_classes): 1 for each
    label that the image has, 0 for each that it lacks, MISSING for each unknown one. crop: height and width to which
    the loaders crop the training images; None if these stay whole. Test images are already cropped.
    """

    train_images: np.ndarray | ImageFiles
    train_labels: np.ndarray
    test_images: np.ndarray | ImageFiles
    test_labels: np.ndarray
    num_classes: int
    channel_mean: tuple[float, ...]
    channel_std: tuple[float, ...]
    crop: tuple[int, int] | None = None

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the images in batches, and hence of a network's input."""
        return (*self.crop, self.train_images.shape[3]) if self.crop else self.train_images.shape[1:]

    @property
    def multi_label(self) -> bool:
        """Whether an image has any number of labels instead of one."""
        return self.train_labels.ndim == 2


def open_data(data_dir: Path | str, num_threads: int = 1, crop_size: tuple[int, int] | None = None) -> PreparedData:
    """Open a prepared folder. num_threads: threads that decode the images of a batch, if they are files.

    crop_size: height and width to which a run crops its images.
    """
    folder, description = Path(data_dir), read_description(data_dir)
    arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ARRAYS if is_array(name, description)}
    for split in SPLITS:
        if not is_array(f"{split}_images", description):
            shape = (description[f"num_{split}"], *description["image_shape"])
            arrays[f"{split}_images"] = ImageFiles(folder, split, description["form"], shape, num_threads)
    data = PreparedData(
        **arrays,
        num_classes=description["num_classes"],
        channel_mean=tuple(description["channel_mean"]),
        channel_std=tuple(description["channel_std"]),
    )
    return crop_data(data, crop_size)


def crop_data(data: PreparedData, size: tuple[int, int] | None) -> PreparedData:
    """Return data with test images cropped at their centre, as views, and training images for the loaders to crop."""
    if size is None:
        return data
    images = data.test_images
    if isinstance(images, ImageFiles):
        cropped: np.ndarray | ImageFiles = images.crop_centre(size)
    else:
        cropped = images[:, *centre(images.shape[1:], size)]
    return replace(data, test_images=cropped, crop=(size[0], size[1]))


def normalize_by(data: PreparedData, normalization: str) -> PreparedData:
    """Return data with other values to normalise by: a key of NORMALIZATIONS, or `data`, which changes nothing."""
    if normalization == "data":
        return data
    channels = data.train_images.shape[3]
    mean, std = (np.broadcast_to(values, channels).tolist() for values in NORMALIZATIONS[normalization])
    return replace(data, channel_mean=tuple(mean), channel_std=tuple(std))


def is_array(name: str, description: dict) -> bool:
    """Whether one of ARRAYS is stored as an array; labels always are."""
    return "form" not in description or name.endswith("_labels")
