"""
keras.utils.PyDataset: each item is a batch, loaded with keras.utils.load_img in worker threads or processes.

The items come from the queue that Keras's own fit uses, and go to fit through the loop, as batches of the shared loader
do. The loop's clocks and its single fit for the whole run therefore stay the same. With one thread Keras has no queue,
and loads a batch when it is asked for one.
"""

from collections.abc import Iterator

import keras
import numpy as np
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.draws import Augmentation
from howmanygpus.measure.input.pillow import flip_and_crop
from howmanygpus.measure.input.training_items import TrainingItems
from howmanygpus.measure.input.workers import use_clean_workers


class Batches(keras.utils.PyDataset):
    """Item k is step k's images, uint8 (local batch, height, width, channels), and their labels."""

    def __init__(self, items: TrainingItems, **options):
        super().__init__(**options)
        self.items = items

    def __len__(self) -> int:
        return self.items.shares.num_steps

    def __getitem__(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        size = self.items.shares.local_batch_size
        items = [self.items[position] for position in range(step * size, (step + 1) * size)]
        images = np.stack([self.load(source, change) for source, change, _ in items])
        return images, np.array([label for _, _, label in items])

    def load(self, source: str | np.ndarray, change: Augmentation) -> np.ndarray:
        size = self.items.image_shape[:2]
        if isinstance(source, str):
            colours = "grayscale" if self.items.image_shape[2] == 1 else "rgb"
            image = keras.utils.load_img(source, color_mode=colours)
        else:
            image = keras.utils.array_to_img(source, data_format="channels_last", scale=False)
        return keras.utils.img_to_array(flip_and_crop(image, change, size), data_format="channels_last", dtype="uint8")


class KerasBatches(TrainingBatches):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        if self.spec.loader_kind == "processes":
            use_clean_workers(__name__)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        in_processes = self.spec.loader_kind == "processes"
        batches = Batches(TrainingItems(self), workers=self.num_workers, use_multiprocessing=in_processes)
        adapter = PyDatasetAdapter(batches)
        try:
            yield from adapter.get_numpy_iterator()
        finally:
            # fit takes one batch to build the model and then starts again.
            adapter.on_epoch_end()


LOADER = KerasBatches
