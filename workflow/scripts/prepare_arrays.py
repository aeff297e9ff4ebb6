"""Write a data set as uint8 arrays with a manifest that names every image's hash, label and split."""

import argparse
import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np

from benchreport.datasets import Arrays, Description, load_source, synthetic
from benchreport.preparation.listing import describe_dataset
from benchreport.preparation.statistics import mean_and_std, sum_levels
from trainbench.data import ARRAYS, sha256_of_file
from trainbench.records import write_json_atomic


def load_arrays(source: str, options: dict, acquired: str, replace_by_random: bool) -> tuple[Arrays, int]:
    """The arrays and the number of classes; random ones of the same shape and number where asked for.

    acquired: the folder of what was fetched for the data set, if anything was.
    """
    description, folder = describe_dataset(source, options), {"folder": acquired} if acquired else {}
    arrays = load_random(description) if replace_by_random else load_source(source).load(**options | folder)
    check_arrays(arrays, description, source)
    return arrays, description.num_classes


def load_random(described: Description) -> Arrays:
    return synthetic.load(described.image_shape, described.num_classes, described.num_train, described.num_test)


def check_arrays(arrays: Arrays, description: Description, source: str) -> None:
    """Raise ValueError where a data source does not deliver what it describes."""
    for split, count in (("train", description.num_train), ("test", description.num_test)):
        images, labels = getattr(arrays, f"{split}_images"), getattr(arrays, f"{split}_labels")
        expected = (count, *description.image_shape)
        if images.shape != expected or images.dtype != np.uint8:
            raise ValueError(f"{source}: {split} images are {images.dtype} {images.shape}, not uint8 {expected}")
        if labels.shape != (count,) or labels.min() < 0 or labels.max() >= description.num_classes:
            raise ValueError(f"{source}: {split} labels are not {count} numbers below {description.num_classes}")


def write_manifest(path: Path, arrays: Arrays) -> None:
    """One line per image: index in its split, split, label, SHA-256 of its pixels."""
    with open(path, "w") as file:
        file.write("index\tsplit\tlabel\tsha256\n")
        for split in ("train", "test"):
            images, labels = getattr(arrays, f"{split}_images"), getattr(arrays, f"{split}_labels")
            for index, (image, label) in enumerate(zip(images, labels, strict=True)):
                file.write(f"{index}\t{split}\t{label}\t{hashlib.sha256(image.tobytes()).hexdigest()}\n")


def write_prepared(folder: Path, arrays: Arrays, num_classes: int) -> None:
    """Write arrays, manifest and dataset.json in a folder beside `folder`, then move them in, dataset.json last."""
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        for name in ARRAYS:
            np.save(partial / f"{name}.npy", getattr(arrays, name))
        write_manifest(partial / "manifest.tsv", arrays)
        height, width, _ = arrays.train_images.shape[1:]
        mean, std = mean_and_std(map(sum_levels, arrays.train_images), height * width)
        files = sorted(path.name for path in partial.iterdir())
        description = {
            "image_shape": arrays.train_images.shape[1:],
            "num_classes": num_classes,
            "num_train": len(arrays.train_labels),
            "num_test": len(arrays.test_labels),
            "channel_mean": mean,
            "channel_std": std,
            "sha256": {name: sha256_of_file(partial / name) for name in files},
        }
        folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            os.replace(partial / name, folder / name)
        write_json_atomic(folder / "dataset.json", description)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="module of benchreport/datasets/")
    parser.add_argument("--options", type=json.loads, default={}, help="its options, as JSON")
    parser.add_argument("--acquired", default="", help="folder of what was fetched for it")
    parser.add_argument("--random", action="store_true", help="random images and labels of the same shape and number")
    parser.add_argument("--folder", type=Path, required=True, help="folder to write")
    arguments = parser.parse_args()
    arrays, num_classes = load_arrays(arguments.source, arguments.options, arguments.acquired, arguments.random)
    write_prepared(arguments.folder, arrays, num_classes)


if __name__ == "__main__":
    main()
