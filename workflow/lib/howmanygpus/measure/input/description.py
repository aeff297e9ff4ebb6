"""
Read the description of a prepared folder, and compare the folder with it; see measure.input.prepared.

This uses the standard library alone, because the processes that start a run need it, and their imports are part of the
time that a run takes.
"""

import json
from pathlib import Path

from howmanygpus.files import sha256_of_file

DESCRIPTION = "dataset.json"
MANIFEST = "manifest.tsv"
SUFFIXES = {"png": "png", "jpeg": "jpg"}
"""Suffix of the files, by form."""
FILES_PER_FOLDER = 1000


def image_name(split: str, index: int, form: str) -> str:
    """Path of an image below its data set's folder."""
    return f"images/{split}/{index // FILES_PER_FOLDER:04d}/{index:07d}.{SUFFIXES[form]}"


def read_description(data_dir: Path | str) -> dict:
    return json.loads((Path(data_dir) / DESCRIPTION).read_text())


def verify_data(folder: Path, description: dict) -> None:
    """Compare arrays and manifest with their hashes, and image files with their sizes.

    Raises ValueError naming the file and the remedy. The content of image files is not compared, since reading all of
    them would take as long as the first epoch.
    """
    verify_hashes(folder, description["sha256"])
    if "form" in description:
        verify_sizes(Path(folder), description["form"])


def verify_sizes(folder: Path, form: str) -> None:
    """Compare image files with the sizes in the manifest; raises ValueError naming the file and the remedy."""
    lines = (folder / MANIFEST).read_text().splitlines()[1:]
    for index, split, _, _, num_bytes in (line.split("\t") for line in lines):
        path = folder / image_name(split, int(index), form)
        found = path.stat().st_size if path.exists() else None
        if found != int(num_bytes):
            problem = f"has {found} bytes, not the recorded {num_bytes}" if found is not None else "is missing"
            raise ValueError(f"{path} {problem}; delete {folder} and run the workflow again to make it anew")


def verify_hashes(folder: Path, sha256: dict[str, str]) -> None:
    """Compare files with their recorded hashes; raises ValueError naming the file and the remedy."""
    for name, expected in sha256.items():
        path = Path(folder) / name
        found = sha256_of_file(path) if path.exists() else None
        if found != expected:
            problem = f"SHA-256 is {found}, not the recorded {expected}" if found else "the file is missing"
            raise ValueError(f"{path}: {problem}; delete {folder} and run the workflow again to make it anew")
