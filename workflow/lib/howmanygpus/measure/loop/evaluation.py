"""
Evaluations of a run. Each covers every image of the test split once, on all devices or on the first.

Every evaluation stores arrays over all test images. With one label per image, they are `rank`, the rank of the true
label, and `loss`. With two classes there are also `score`, the logit of the second class minus that of the first, and
`label`, the number of the true class. With any number of labels per image, they are `score`, the logit of each label
before the sigmoid, and `label`, the image's labels; see measure.input.prepared.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from howmanygpus.measure.input.batches import evaluation_batches
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import Backend
from howmanygpus.measure.loop.prefetch import Prefetcher, feed
from howmanygpus.measure.spec import RunSpec


class Evaluation:
    """One process's part in every evaluation of a run. Batches are fed ahead, as in training."""

    def __init__(self, spec: RunSpec, data: PreparedData, backend: Backend):
        self.spec, self.data, self.backend = spec, data, backend
        self.predictions = PredictionStore(data.test_labels if data.multi_label or data.num_classes == 2 else None)
        self._feed: Prefetcher | Generator | None = None

    def _batches(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Return this process's (images, samples); nothing if another process's device predicts everything."""
        spec, backend, images = self.spec, self.backend, self.data.test_images
        size = spec.eval_batch_size or spec.per_device_batch_size
        if spec.eval_devices == "all":
            return evaluation_batches(images, size * spec.num_gpus, backend.rank, backend.num_processes)
        return evaluation_batches(images, size, 0, 1) if backend.rank == 0 else iter(())

    def start_feeding(self) -> Prefetcher | Generator:
        """Begin to read the next evaluation's batches, unless that has begun already, and return them."""
        if self._feed is None:
            put = self.backend.put_for_prediction
            self._feed = feed(self._batches(), lambda batch: (put(batch[0]), batch[1]), self.spec.prefetch)
        return self._feed

    def evaluate(self, epoch: int) -> None:
        """Predict all images and keep their scores."""
        self.backend.prepare_evaluation()
        batches = self.start_feeding()
        self._feed = None
        none = np.zeros(0, np.int64)
        evaluated, scores = [none], [score(np.zeros((0, self.data.num_classes)), self.data.test_labels[none])]
        with closing(batches):
            for batch, samples in batches:
                logits, is_real = self.backend.predict(batch), samples >= 0
                evaluated.append(samples[is_real])
                scores.append(score(logits[is_real], self.data.test_labels[samples[is_real]]))
        joined = {name: np.concatenate([part[name] for part in scores]) for name in scores[0]}
        self.predictions.add(epoch, np.concatenate(evaluated), joined)

    def close(self) -> None:
        if self._feed is not None:
            self._feed.close()


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
