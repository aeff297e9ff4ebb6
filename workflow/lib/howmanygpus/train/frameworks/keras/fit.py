"""Keras `Model.fit`, called once for the whole run, whose steps the loop counts."""

import abc

import keras
import tensorflow as tf

from howmanygpus.train.frameworks.keras.family import KerasBackend
from howmanygpus.train.host.processes import keep_freed_memory


class FitBackend(KerasBackend):
    def compile(self, optimizer: keras.optimizers.Optimizer, jit_compile: bool) -> None:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.model.compile(optimizer=optimizer, loss=loss, jit_compile=jit_compile)
        self._loss_of_epoch = 0.0

    def train(self, loop) -> None:
        feeder, batch_size = Feeder(loop), self.spec.global_batch_size // self.num_processes
        signature = (
            tf.TensorSpec((batch_size, *self.data.image_shape), tf.uint8),
            tf.TensorSpec((batch_size,), tf.int32),
        )
        dataset = tf.data.Dataset.from_generator(feeder.batches, output_signature=signature)
        options = untuned()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        # tf.data would keep batches ahead that nobody asked for.
        options.experimental_optimization.inject_prefetch = False
        whole_epochs = self.spec.steps is None
        self.model.fit(
            self.feed_ahead(dataset.with_options(options), loop.spec.prefetch),
            epochs=self.spec.epochs if whole_epochs else 1,
            steps_per_epoch=loop.steps_per_epoch if whole_epochs else loop.num_steps,
            callbacks=[CountSteps(loop, feeder, self)],
            verbose=0,
        )

    @abc.abstractmethod
    def feed_ahead(self, dataset: tf.data.Dataset, prefetch: int) -> tf.data.Dataset | tf.distribute.DistributedDataset:
        """What fit is given: tf.data, not the loop, takes batches to the devices, `prefetch` ahead of the training."""

    def start_epoch(self) -> None:
        """Keras sets its running mean of the loss back to zero at every epoch of fit."""
        self._loss_of_epoch, self._steps_of_epoch = 0.0, 0

    def take_window_loss(self, num_steps: int) -> float:
        """Keras keeps the mean loss of the epoch so far; the window's follows from two of them."""
        self._steps_of_epoch += num_steps
        before, self._loss_of_epoch = self._loss_of_epoch, self._steps_of_epoch * float(self.model.metrics[0].result())
        return (self._loss_of_epoch - before) / num_steps


def untuned() -> tf.data.Options:
    """For data sets in which tf.data has nothing to tune.

    The thread that would tune misses the end of its iterator (TensorFlow 2.21 wakes it to see that it is cancelled, and
    only then marks it so), and lets whoever waits for it sleep until it would have tuned again: up to a minute.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return options


class Feeder:
    """Hands batches to tf.data and notes when, so that the wait for each is known on the training side."""

    def __init__(self, loop):
        self._loop = loop
        self.handed_over: dict[int, float] = {}

    def batches(self):
        """fit looks at one batch to build the model and then starts again: every call begins with step 0."""
        self.handed_over.clear()
        for step, batch in enumerate(self._loop.host_batches()):
            self.handed_over[step] = self._loop.clock()
            yield batch

    def wait_s(self, step: int, started: float) -> float:
        """Seconds from `started` until the batch of `step` was there; 0 where it came before."""
        return max(0.0, self.handed_over.pop(step) - started)


class CountSteps(keras.callbacks.Callback):
    """Tells the loop of each step when the next one begins or the epoch ends.

    A callback with on_train_batch_end would make Keras read the loss, and so wait for the devices, in every step.
    """

    def __init__(self, loop, feeder: Feeder, backend: FitBackend):
        super().__init__()
        self._loop, self._feeder, self._backend = loop, feeder, backend

    def on_epoch_begin(self, epoch, logs=None):
        self._backend.start_epoch()

    def on_train_batch_begin(self, batch, logs=None):
        if batch > 0:
            self._finish_step()
        else:
            # With the first iterator over a generator's data set TensorFlow 2.21 has malloc map each large block anew.
            keep_freed_memory()
        self._step_began = self._loop.clock()

    def on_epoch_end(self, epoch, logs=None):
        self._finish_step()

    def _finish_step(self) -> None:
        self._loop.data_wait_s += self._feeder.wait_s(self._loop.steps_done, self._step_began)
        self._loop.after_step()
