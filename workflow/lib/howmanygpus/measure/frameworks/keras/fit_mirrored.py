"""
Keras `Model.fit` under tf.distribute.MirroredStrategy: one process for all devices, one fit for the whole run.

BatchNorm is local to each replica; evaluation uses the mean of the replicas' running statistics. The strategy's
iterator keeps `prefetch` batches on the devices and as many more on the host. With 0 no batch is on a device before its
step, but with two devices or more the iterator's thread still takes one batch from the loader ahead.
"""

import keras
import tensorflow as tf
from tensorflow.python.data.ops import multi_device_iterator_ops

from howmanygpus.measure.frameworks.keras.fit import FitBackend, make_untuned_options
from howmanygpus.measure.frameworks.keras.replicas import MirroredBackend


class KerasMirrored(MirroredBackend, FitBackend):
    def prepare_training(self, optimizer: keras.optimizers.Optimizer) -> None:
        self.compile(optimizer, **({"jit_compile": True} if self.spec.tier == "best" else {}))

    def prefetch_to_devices(self, dataset: tf.data.Dataset, prefetch: int) -> tf.distribute.DistributedDataset:
        options = tf.distribute.InputOptions(experimental_per_replica_buffer_size=prefetch)
        return self.strategy.experimental_distribute_dataset(dataset, options)


def disable_tuning(create):
    """Wrap `create` so that its data sets have no tuning thread."""
    return lambda *arguments: create(*arguments).with_options(make_untuned_options())


# The strategy takes batches from another data set for each device, to which TensorFlow does not pass the options on.
multi_device_iterator_ops._create_device_dataset = disable_tuning(multi_device_iterator_ops._create_device_dataset)

BACKEND = KerasMirrored
