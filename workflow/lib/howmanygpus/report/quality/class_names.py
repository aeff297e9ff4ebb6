"""The names of a data set's classes."""

import csv
from pathlib import Path

CLASSES = "classes.tsv"
"""A file beside the arrays; prepare.merging writes it for data sets of image files."""


def read_class_names(folder: Path, num_classes: int) -> list[str]:
    """Return the name of each class, or its number if the names are not known.

    folder: a prepared folder of the data set. The names are in the folder of its arrays.
    """
    path = folder.parent / "arrays" / CLASSES
    if not path.exists():
        return list(map(str, range(num_classes)))
    with open(path, newline="") as file:
        return [row["class"] for row in csv.DictReader(file, delimiter="\t")]
