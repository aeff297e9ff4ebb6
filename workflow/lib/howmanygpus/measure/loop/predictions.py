"""
What a network predicted in the evaluations of a run, from which all metrics are computed.

Every evaluation stores arrays over all test images. With one label per image, they are `rank`, the rank of the true
label, and `loss`. With two classes there are also `score`, the logit of the second class minus that of the first, and
`label`, the number of the true class. With any number of labels per image, they are `score`, the logit of each label
before the sigmoid, and `label`, the image's labels; see measure.input.prepared.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


def score_single_label(logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each image's rank of the true label (0 is a correct prediction) and cross-entropy.

    logits: float (count, classes); labels: int (count,). Equal logits rank by class index. A row with a
    non-finite logit ranks last and has loss nan. Returns uint16 (count,), float32 (count,).
    """
    logits = np.asarray(logits, dtype=np.float64)
    rows, num_classes = np.arange(len(labels)), logits.shape[1]
    true_logit = logits[rows, labels][:, None]
    tied_before = (logits == true_logit) & (np.arange(num_classes) < labels[:, None])
    rank = np.sum((logits > true_logit) | tied_before, axis=1)
    finite = np.isfinite(logits).all(axis=1)
    peak = np.max(np.where(finite[:, None], logits, 0.0), axis=1, keepdims=True)
    with np.errstate(invalid="ignore", over="ignore"):
        loss = np.log(np.sum(np.exp(logits - peak), axis=1)) + (peak - true_logit)[:, 0]
    return np.where(finite, rank, num_classes - 1).astype(np.uint16), np.where(finite, loss, np.nan).astype(np.float32)


def score(logits: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays to store for some images. logits: float (count, classes); labels: as in PreparedData."""
    if labels.ndim == 2:
        return {"score": np.asarray(logits, np.float32)}
    scores = dict(zip(("rank", "loss"), score_single_label(logits, labels), strict=True))
    if logits.shape[1] != 2:
        return scores
    first, second = np.asarray(logits, np.float64).T
    with np.errstate(invalid="ignore", over="ignore"):
        return scores | {"score": (second - first).astype(np.float32)}


@dataclass
class PredictionStore:
    """Collects one process's evaluations and writes them at the end of the run.

    labels: the labels of all test images, if scores are stored.
    """

    labels: np.ndarray | None = None
    epochs: list[int] = field(default_factory=list)
    samples: np.ndarray | None = None
    scores: list[dict[str, np.ndarray]] = field(default_factory=list)

    def add(self, epoch: int, samples: np.ndarray, scores: dict[str, np.ndarray]) -> None:
        """Take the scores of an epoch's evaluation. scores: result of `score` for the images `samples`."""
        self.epochs.append(epoch)
        self.samples = samples
        self.scores.append(scores)

    def collect(self) -> dict[str, np.ndarray]:
        """Return the arrays of all evaluations: `epoch`, `sample`, and (evaluations, samples, ...) of each score."""
        samples = np.zeros(0, np.int64) if self.samples is None else self.samples
        arrays = dict.fromkeys(("rank", "loss", "score"), np.zeros((0, 0), np.float32))
        if self.scores:
            arrays = {name: np.stack([scores[name] for scores in self.scores]) for name in self.scores[0]}
        if self.labels is not None:
            arrays["label"] = np.asarray(self.labels)[samples]
        return {"epoch": np.asarray(self.epochs, np.int32), "sample": samples, **arrays}

    def write(self, path: Path) -> None:
        arrays: dict[str, Any] = self.collect()
        np.savez(path, **arrays)


def merge_predictions(parts: list[Path], num_test: int, destination: Path) -> None:
    """Join the processes' files into one, by sample: (evaluations, num_test, ...), and `label` (num_test, ...).

    Raises ValueError if an image was evaluated twice or never.
    """
    loaded = [dict(np.load(part)) for part in parts]
    sample = np.concatenate([part["sample"] for part in loaded])
    if len(loaded[0]["epoch"]) and not np.array_equal(np.sort(sample), np.arange(num_test)):
        raise ValueError(f"evaluation covered {len(sample)} images ({len(set(sample))} distinct), not {num_test}")
    order = np.argsort(sample)
    joined = {"epoch": loaded[0]["epoch"]}
    for key in loaded[0].keys() - {"epoch", "sample"}:
        axis = 0 if key == "label" else 1
        joined[key] = np.take(np.concatenate([part[key] for part in loaded], axis=axis), order, axis=axis)
    np.savez_compressed(destination, **joined)
