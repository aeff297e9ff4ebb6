"""Write a data set as uint8 arrays with a manifest that names every image's hash, label and split."""

import argparse
import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from howmanygpus.files import sha256_of_file, write_json_atomic
from howmanygpus.prepare.listing import describe_dataset
from howmanygpus.prepare.sources import SPLITS, Description, load_source, synthetic
from howmanygpus.prepare.statistics import mean_and_std, sum_levels


def read_parts(source: str, options: dict, acquired: str, description: Description) -> dict[str, tuple]:
    """Of each split the images, in blocks, and the labels. acquired: folder of what was fetched, if anything was."""
    arrays = load_source(source).load(**options | ({"folder": acquired} if acquired else {}))
    parts = {split: ([getattr(arrays, f"{split}_images")], getattr(arrays, f"{split}_labels")) for split in SPLITS}
    for split, (blocks, labels) in parts.items():
        check_part(source, split, blocks[0], labels, description)
    return parts


def check_part(source: str, split: str, images: np.ndarray, labels: np.ndarray, description: Description) -> None:
    """Raise ValueError where a data source does not deliver what it describes."""
    count = description.count(split)
    expected = (count, *description.image_shape)
    if images.shape != expected or images.dtype != np.uint8:
        raise ValueError(f"{source}: {split} images are {images.dtype} {images.shape}, not uint8 {expected}")
    if labels.shape != (count,) or labels.min() < 0 or labels.max() >= description.num_classes:
        raise ValueError(f"{source}: {split} labels are not {count} numbers below {description.num_classes}")


def draw_parts(description: Description) -> dict[str, tuple]:
    """Random images and labels of the same shape and number."""
    return {
        split: (synthetic.draw_images(description, split), synthetic.draw_labels(description, split))
        for split in SPLITS
    }


def write_images(path: Path, blocks: Iterable[np.ndarray], shape: tuple[int, ...]) -> tuple[list[str], list]:
    """Write the images as they come; the SHA-256 of each one's pixels, and each one's sums."""
    hashes, sums = [], []
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for block in blocks:
            for image in np.ascontiguousarray(block):
                file.write(image)
                hashes.append(hashlib.sha256(image).hexdigest())
                sums.append(sum_levels(image))
    return hashes, sums


def write_manifest(path: Path, parts: dict[str, tuple], hashes: dict[str, list[str]]) -> None:
    """One line per image: index in its split, split, label, SHA-256 of its pixels."""
    with open(path, "w") as file:
        file.write("index\tsplit\tlabel\tsha256\n")
        for split, (_, labels) in parts.items():
            for index, (digest, label) in enumerate(zip(hashes[split], labels, strict=True)):
                file.write(f"{index}\t{split}\t{label}\t{digest}\n")


def write_prepared(folder: Path, parts: dict[str, tuple], description: Description) -> None:
    """Write arrays, manifest and dataset.json in a folder beside `folder`, then move them in, dataset.json last."""
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    hashes, sums = {}, {}
    try:
        for split, (blocks, labels) in parts.items():
            shape = (description.count(split), *description.image_shape)
            hashes[split], sums[split] = write_images(partial / f"{split}_images.npy", blocks, shape)
            np.save(partial / f"{split}_labels.npy", labels)
        write_manifest(partial / "manifest.tsv", parts, hashes)
        height, width, _ = description.image_shape
        mean, std = mean_and_std(sums["train"], height * width)
        files = sorted(path.name for path in partial.iterdir())
        record = {
            "image_shape": description.image_shape,
            "num_classes": description.num_classes,
            "num_train": description.num_train,
            "num_test": description.num_test,
            "channel_mean": mean,
            "channel_std": std,
            "sha256": {name: sha256_of_file(partial / name) for name in files},
        }
        folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            os.replace(partial / name, folder / name)
        write_json_atomic(folder / "dataset.json", record)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="module of howmanygpus/prepare/sources/")
    parser.add_argument("--options", type=json.loads, default={}, help="its options, as JSON")
    parser.add_argument("--acquired", default="", help="folder of what was fetched for it")
    parser.add_argument("--random", action="store_true", help="random images and labels of the same shape and number")
    parser.add_argument("--folder", type=Path, required=True, help="folder to write")
    arguments = parser.parse_args()
    source, options = arguments.source, arguments.options
    description = describe_dataset(source, options)
    parts = (
        draw_parts(description) if arguments.random else read_parts(source, options, arguments.acquired, description)
    )
    write_prepared(arguments.folder, parts, description)


if __name__ == "__main__":
    main()
