"""
Write prepared arrays as image files, each in a file of its own, with a manifest of the files.

PNG is without loss, by OpenCV. JPEG is by simplejpeg with quality 90: gray as gray; RGB with its colour at half the
resolution each way (4:2:0), as cameras and most programs write it, and so as users' files are.
"""

import argparse
import csv
import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import simplejpeg

from howmanygpus.files import sha256_of_file, write_json_atomic
from howmanygpus.train.input.image_files import FILES_PER_FOLDER, SUFFIXES, image_name, read_jpeg
from howmanygpus.train.input.prepared import PreparedData, open_data, read_description

QUALITY = 90
NUM_COMPARED = 256
"""Images whose pixels are compared with what JPEG leaves of them."""
SPLITS = ("train", "test")


def encode(image: np.ndarray, form: str) -> bytes:
    """image: uint8 (height, width, channels), gray or RGB."""
    is_gray = image.shape[2] == 1
    if form == "jpeg":
        colours, subsampling = ("GRAY", "Gray") if is_gray else ("RGB", "420")
        return simplejpeg.encode_jpeg(np.ascontiguousarray(image), QUALITY, colours, subsampling)
    return cv2.imencode(".png", image if is_gray else cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1].tobytes()


def write_image(folder: Path, split: str, form: str, images: np.ndarray, index: int) -> tuple[str, int]:
    """SHA-256 and size of the file."""
    content = encode(images[index], form)
    (folder / image_name(split, index, form)).write_bytes(content)
    return hashlib.sha256(content).hexdigest(), len(content)


def read_labels(manifest: Path) -> dict[tuple[str, str], str]:
    """Label of each image as the arrays' manifest writes it, by split and index."""
    with open(manifest, newline="") as file:
        return {(row["split"], row["index"]): row["label"] for row in csv.DictReader(file, delimiter="\t")}


def write_images(folder: Path, form: str, data: PreparedData, labels: dict, num_threads: int) -> None:
    """All files, and the manifest: per image its index in its split, split, label, and the file's SHA-256 and size."""
    with open(folder / "manifest.tsv", "w") as manifest, ThreadPoolExecutor(num_threads) as threads:
        manifest.write("index\tsplit\tlabel\tsha256\tbytes\n")
        for split in SPLITS:
            images = getattr(data, f"{split}_images")
            write = partial(write_image, folder, split, form, images)
            for start in range(0, len(images), FILES_PER_FOLDER):
                indices = range(start, min(start + FILES_PER_FOLDER, len(images)))
                (folder / image_name(split, start, form)).parent.mkdir(parents=True)
                for index, (sha256, num_bytes) in zip(indices, threads.map(write, indices), strict=True):
                    manifest.write(f"{index}\t{split}\t{labels[split, str(index)]}\t{sha256}\t{num_bytes}\n")


def measure_loss(folder: Path, images: np.ndarray) -> dict:
    """What JPEG takes from the first images, in levels of 0 to 255, and the signal over it in dB."""
    count, channels = min(NUM_COMPARED, len(images)), images.shape[3]
    paths = [folder / image_name("train", index, "jpeg") for index in range(count)]
    left = np.stack([read_jpeg(str(path), channels) for path in paths])
    difference = np.abs(left.astype(np.float64) - images[:count])
    psnr_db = 20 * np.log10(255 / max(np.sqrt((difference**2).mean()), 1e-9))
    return {
        "compared_images": count,
        "mean_levels": difference.mean(),
        "max_levels": difference.max(),
        "psnr_db": psnr_db,
    }


def describe(folder: Path, form: str, data: PreparedData, arrays: dict) -> dict:
    """The arrays' description, whose normalisation is that of the images as they were, and that of the files."""
    files = sorted(path.name for path in folder.iterdir() if path.is_file())
    description = arrays | {"form": form, "arrays_manifest_sha256": arrays["sha256"]["manifest.tsv"]}
    if form == "jpeg":
        description |= {"encoder": f"simplejpeg {simplejpeg.__version__}", "quality": QUALITY}
        description |= {"loss": measure_loss(folder, data.train_images)}
    else:
        description |= {"encoder": f"opencv {cv2.__version__}"}
    return description | {"sha256": {name: sha256_of_file(folder / name) for name in files}}


def publish(partial_folder: Path, folder: Path, description: dict) -> None:
    """Move everything to its place, dataset.json last."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dataset.json").unlink(missing_ok=True)
    shutil.rmtree(folder / "images", ignore_errors=True)
    for path in sorted(partial_folder.iterdir()):
        os.replace(path, folder / path.name)
    write_json_atomic(folder / "dataset.json", description)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrays", type=Path, required=True, help="folder of the prepared arrays")
    parser.add_argument("--form", choices=list(SUFFIXES), required=True)
    parser.add_argument("--threads", type=int, default=1, help="images encoded at once (default 1)")
    parser.add_argument("--folder", type=Path, required=True, help="folder to write")
    arguments = parser.parse_args()
    folder, data = arguments.folder, open_data(arguments.arrays)
    partial_folder = folder.with_name(f".{folder.name}.{os.getpid()}")
    partial_folder.mkdir(parents=True)
    try:
        labels = read_labels(arguments.arrays / "manifest.tsv")
        write_images(partial_folder, arguments.form, data, labels, arguments.threads)
        for split in SPLITS:
            np.save(partial_folder / f"{split}_labels.npy", getattr(data, f"{split}_labels"))
        description = describe(partial_folder, arguments.form, data, read_description(arguments.arrays))
        publish(partial_folder, folder, description)
    finally:
        shutil.rmtree(partial_folder, ignore_errors=True)


if __name__ == "__main__":
    main()
