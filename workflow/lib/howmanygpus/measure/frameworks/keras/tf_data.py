"""
tf.data: TensorFlow's own operations read, decode, flip and crop the files, in threads of its runtime.

`map` processes as many images at a time as there are workers, and the pipeline's own threads keep batches ahead. JPEG
is decoded with the exact inverse transform, as by all other loaders.
"""

from collections.abc import Iterator
from typing import cast

import numpy as np
import tensorflow as tf

from howmanygpus.measure.host.processes import set_malloc_thresholds
from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.image_files import ImageFiles


class TfDataBatches(TrainingBatches):
    @property
    def files(self) -> ImageFiles:
        """The training images, which are files: the planner refuses this loader for arrays."""
        return cast(ImageFiles, self.data.train_images)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        # On the host, also under a strategy that has other devices.
        with tf.device("/cpu:0"):
            batches = self.build().as_numpy_iterator()
        if self.spec.tier == "best":
            # The first iterator over a generator's data set makes malloc map each large block anew (TensorFlow 2.21).
            set_malloc_thresholds()
        yield from batches

    def build(self) -> tf.data.Dataset:
        labels = self.data.train_labels
        signature = {
            "path": tf.TensorSpec((None,), tf.string),
            "label": tf.TensorSpec((None, *labels.shape[1:]), labels.dtype),
            "flipped": tf.TensorSpec((None,), tf.bool),
            "place": tf.TensorSpec((None, 2), tf.int32),
        }
        dataset = tf.data.Dataset.from_generator(self.describe_steps, output_signature=signature).unbatch()
        dataset = dataset.map(self.load, num_parallel_calls=self.num_workers, deterministic=True)
        dataset = dataset.batch(self.shares.local_batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
        options = tf.data.Options()
        options.threading.private_threadpool_size = self.num_workers
        return dataset.with_options(options)

    def describe_steps(self) -> Iterator[dict]:
        """Yield each step's paths, labels and flips, and where the crop begins in the padded image."""
        labels, padding = self.data.train_labels, self.spec.random_crop_padding
        for step in range(self.num_steps):
            share = self.shares[step]
            yield {
                "path": [self.files.path(sample) for sample in share.samples.tolist()],
                "label": labels[share.samples],
                "flipped": share.changes.flipped,
                "place": np.stack([share.changes.top, share.changes.left], axis=1) + padding,
            }

    def load(self, item: dict) -> tuple[tf.Tensor, tf.Tensor]:
        height, width, channels = self.data.image_shape
        content = tf.io.read_file(item["path"])
        if self.files.form == "jpeg":
            # TensorFlow's default is a faster transform, whose pixels differ from those of all other decoders.
            image = tf.io.decode_jpeg(content, channels=channels, dct_method="INTEGER_ACCURATE")
        else:
            image = tf.io.decode_png(content, channels=channels)
        image.set_shape(self.files.shape[1:])
        image = tf.cond(item["flipped"], lambda: tf.image.flip_left_right(image), lambda: image)
        if padding := self.spec.random_crop_padding:
            image = tf.pad(image, [[padding, padding], [padding, padding], [0, 0]])
        if image.shape[:2] != (height, width):
            image = tf.image.crop_to_bounding_box(image, item["place"][0], item["place"][1], height, width)
        return image, item["label"]


LOADER = TfDataBatches
