"""gluon.data.DataLoader: mx.image decodes, in worker processes or, with thread_pool, in threads."""

from collections.abc import Iterator

import mxnet as mx
import numpy as np
from mxnet import gluon

from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.draws import Augmentation
from howmanygpus.measure.input.training_items import TrainingItems
from howmanygpus.measure.input.workers import use_clean_workers


class Images(gluon.data.Dataset):
    def __init__(self, items: TrainingItems, padding: int):
        self.items, self.padding = items, padding

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, position: int) -> tuple[mx.nd.NDArray, np.ndarray | np.int32]:
        source, change, label = self.items[position]
        return self.change(self.load(source), change), label

    def load(self, source: str | np.ndarray) -> mx.nd.NDArray:
        if isinstance(source, str):
            return mx.image.imread(source, flag=int(self.items.image_shape[2] == 3))
        return mx.nd.array(source, dtype=np.uint8)

    def change(self, image: mx.nd.NDArray, change: Augmentation) -> mx.nd.NDArray:
        height, width, _ = self.items.image_shape
        if change.flipped:
            # As HorizontalFlipAug does. flip_left_right leaves out the middle column of an odd width (MXNet 1.9.1).
            image = mx.nd.flip(image, axis=1)
        if padding := self.padding:
            image = mx.image.copyMakeBorder(image, padding, padding, padding, padding)
        if image.shape[:2] != (height, width):
            image = mx.nd.image.crop(image, change.left + padding, change.top + padding, width, height)
        return image


class GluonBatches(TrainingBatches):
    """DataLoader sets signal handlers, which only the main thread may do. It is created here and used in any thread."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        in_threads = self.spec.loader_kind == "threads"
        if not in_threads:
            use_clean_workers(__name__)
        self._loader = gluon.data.DataLoader(
            Images(TrainingItems(self), self.spec.random_crop_padding),
            batch_size=self.shares.local_batch_size,
            num_workers=self.num_workers,
            thread_pool=in_threads,
        )

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for images, labels in self._loader:
            yield images.asnumpy(), labels.asnumpy()


LOADER = GluonBatches
