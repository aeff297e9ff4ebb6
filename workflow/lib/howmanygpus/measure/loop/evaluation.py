"""Evaluations of a run. Each covers every image of the test split once, on all devices or on the first."""

from collections.abc import Generator, Iterator
from contextlib import closing

import numpy as np

from howmanygpus.measure.input.batches import evaluation_batches
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import Backend
from howmanygpus.measure.loop.predictions import PredictionStore, score
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
