"""
Keras `Model.fit` under tf.distribute.MirroredStrategy: one process for all devices, one fit for the whole run.

BatchNorm is local to each replica; the mean of the replicas' running statistics evaluates. The strategy's iterator
keeps `prefetch` batches on the devices and as many beside them on the host. With 0 no batch is on a device before its
step; with two devices and more the iterator's thread still takes one from the loader ahead.
"""

import keras
import tensorflow as tf

from trainbench.families.keras_fit import FitBackend
from trainbench.families.mirrored import MirroredBackend


class KerasMirrored(MirroredBackend, FitBackend):
    def prepare_training(self, optimizer: keras.optimizers.Optimizer) -> None:
        self.compile(optimizer, jit_compile=self.spec.tier == "best")

    def feed_ahead(self, dataset: tf.data.Dataset, prefetch: int) -> tf.distribute.DistributedDataset:
        options = tf.distribute.InputOptions(experimental_per_replica_buffer_size=prefetch)
        return self.strategy.experimental_distribute_dataset(dataset, options)


BACKEND = KerasMirrored
