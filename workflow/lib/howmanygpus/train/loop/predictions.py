"""Stores evaluations: the rank of the true label and the loss of every test image."""

from dataclasses import dataclass, field
from pathlib import Path

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


@dataclass
class PredictionStore:
    """Collects one process's evaluations and writes them at the end of the run."""

    epochs: list[int] = field(default_factory=list)
    samples: np.ndarray | None = None
    ranks: list[np.ndarray] = field(default_factory=list)
    losses: list[np.ndarray] = field(default_factory=list)

    def add(self, epoch: int, samples: np.ndarray, rank: np.ndarray, loss: np.ndarray) -> None:
        self.epochs.append(epoch)
        self.samples = samples
        self.ranks.append(rank)
        self.losses.append(loss)

    def write(self, path: Path) -> None:
        samples = np.zeros(0, np.int64) if self.samples is None else self.samples
        shape = (len(self.epochs), len(samples))
        np.savez(
            path,
            epoch=np.asarray(self.epochs, np.int32),
            sample=samples,
            rank=np.asarray(self.ranks, np.uint16).reshape(shape),
            loss=np.asarray(self.losses, np.float32).reshape(shape),
        )


def merge_predictions(parts: list[Path], num_test: int, destination: Path) -> None:
    """Join the processes' files into one, by sample: `rank` and `loss` are (evaluations, num_test).

    Raises ValueError if an image was evaluated twice or never.
    """
    loaded = [dict(np.load(part)) for part in parts]
    sample = np.concatenate([part["sample"] for part in loaded])
    if len(loaded[0]["epoch"]) and not np.array_equal(np.sort(sample), np.arange(num_test)):
        raise ValueError(f"evaluation covered {len(sample)} images ({len(set(sample))} distinct), not {num_test}")
    order = np.argsort(sample)
    rank, loss = (np.concatenate([part[key] for part in loaded], axis=1)[:, order] for key in ("rank", "loss"))
    np.savez_compressed(destination, epoch=loaded[0]["epoch"], rank=rank, loss=loss)
