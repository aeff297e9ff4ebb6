"""
Chainer's MultiprocessIterator or MultithreadIterator over a dataset that decodes with Pillow, like its ImageDataset.

All workers together load one batch ahead.
"""

from collections.abc import Iterator

import numpy as np
from chainer.dataset import DatasetMixin, concat_examples
from chainer.iterators import MultiprocessIterator, MultithreadIterator

from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.pillow import load_image
from howmanygpus.measure.input.training_items import TrainingItems
from howmanygpus.measure.input.workers import use_clean_workers


class Images(DatasetMixin):
    def __init__(self, items: TrainingItems):
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def get_example(self, position: int) -> tuple[np.ndarray, np.ndarray | np.int32]:
        source, change, label = self.items[position]
        return load_image(source, change, self.items.image_shape), label


class ChainerBatches(TrainingBatches):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        if self.spec.loader_kind == "processes":
            use_clean_workers(__name__)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        options = {"repeat": False, "shuffle": False}
        images, size = Images(TrainingItems(self)), self.shares.local_batch_size
        if self.spec.loader_kind == "processes":
            iterator = MultiprocessIterator(images, size, n_processes=self.num_workers, **options)
        else:
            iterator = MultithreadIterator(images, size, n_threads=self.num_workers, **options)
        try:
            for examples in iterator:
                yield concat_examples(examples)
        finally:
            iterator.finalize()


LOADER = ChainerBatches
