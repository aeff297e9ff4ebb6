"""The stored predictions of one evaluation, the predictions of a guess that ignores the images, and classes' names."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from howmanygpus.measure.input.prepared import MISSING

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


STORED = ("rank", "loss", "score")
"""Names of the arrays that are stored for every evaluation. `label` is stored once."""


@dataclass(frozen=True)
class Predictions:
    """Predictions of the whole test split, one value or row for each image.

    With one label per image: rank, of the true label from 0, and loss, its cross-entropy. With two classes also: score,
    the logit of the second minus that of the first, and label, the number of the true class. With any number of labels:
    score, the logit of each label, and label, uint8 with 1, 0 and MISSING. Arrays that were not stored are None.
    """

    rank: np.ndarray | None = None
    loss: np.ndarray | None = None
    score: np.ndarray | None = None
    label: np.ndarray | None = None

    def first(self, count: int) -> "Predictions":
        """Return the predictions of the first images of the split only."""
        arrays = {name: getattr(self, name) for name in (*STORED, "label")}
        return Predictions(**{name: None if array is None else array[:count] for name, array in arrays.items()})

    def require(self, *names: str) -> tuple[np.ndarray, ...]:
        """Return the arrays of these names. Raises ValueError, naming it, if one was not stored."""
        arrays = tuple(getattr(self, name) for name in names)
        for name, array in zip(names, arrays, strict=True):
            if array is None:
                raise ValueError(f"{name} is not among the stored predictions; choose another quality.metric")
        return arrays


def read_predictions(path: Path) -> Iterator[Predictions]:
    """Yield the predictions of every evaluation in a predictions.npz, in order."""
    stored = dict(np.load(path))
    names = [name for name in STORED if name in stored]
    for values in zip(*(stored[name] for name in names), strict=True):
        yield Predictions(**dict(zip(names, values, strict=True)), label=stored.get("label"))


def guess(train: np.ndarray, test: np.ndarray, num_classes: int) -> Predictions:
    """Predict the test images by how frequent each class or label is in the training images.

    train, test: labels as in measure.input.prepared. A class without training images has an infinite loss.
    """
    if train.ndim == 2:
        return Predictions(score=np.tile(compute_log_odds(train), (len(test), 1)), label=test)
    counts = np.bincount(train, minlength=num_classes)
    ranks = np.empty(num_classes, np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(num_classes)
    with np.errstate(divide="ignore"):
        losses = -np.log(counts / counts.sum())
    if num_classes != 2:
        return Predictions(rank=ranks[test], loss=losses[test])
    score = compute_log_odds(train[:, None])
    return Predictions(rank=ranks[test], loss=losses[test], score=np.repeat(score, len(test)), label=test)


def compute_log_odds(labels: np.ndarray) -> np.ndarray:
    """Return the logit of each label's frequency among its known values, 0 if none is known.

    The frequency is (present + 1) / (known + 2), so that the loss of a label that no training image has is finite.
    """
    known, present = (labels != MISSING).sum(axis=0), (labels == 1).sum(axis=0)
    return np.log((present + 1) / (known - present + 1))
