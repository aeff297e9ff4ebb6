"""Keras `Model.fit`, called once for the whole run. The loop counts and times its steps."""

import abc

import keras
import numpy as np
import tensorflow as tf

from howmanygpus.measure.frameworks.keras.family import KerasBackend, sum_over_parts
from howmanygpus.measure.frameworks.keras.losses import build_loss
from howmanygpus.measure.host.processes import set_malloc_thresholds
from howmanygpus.measure.loop.loop import TrainingLoop
from howmanygpus.measure.loop.targets import target_shape
from howmanygpus.measure.spec import RESIDENT


class FitBackend(KerasBackend):
    takes_batches_itself = True

    def compile(self, optimizer: keras.optimizers.Optimizer, **options) -> None:
        """options: for Model.compile."""
        self.optimizer = optimizer
        self.model.compile(optimizer=optimizer, loss=build_loss(self.spec, self.data), **options)
        if self.spec.accumulate > 1:
            accumulate_in_fit(self.model, self.spec.accumulate)
        self._loss_of_epoch = 0.0

    @property
    def compiles(self) -> bool:
        return self.model.jit_compile

    def settings(self) -> dict[str, str]:
        is_kept = self.spec.device_kind == "cpu" or self.spec.input == RESIDENT
        return super().settings() | ({} if is_kept else {"host_memory": "tf.data's own"})

    def train(self, loop: TrainingLoop) -> None:
        dataset = self._arriving_batches(loop) if loop.resident_batch is None else self._keep(loop.resident_batch)
        options = make_untuned_options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        # Without this, tf.data adds a prefetch of its own.
        options.experimental_optimization.inject_prefetch = False
        whole_epochs = loop.spec.steps is None
        self.model.fit(
            self.prefetch_to_devices(dataset.with_options(options), loop.spec.prefetch),
            epochs=loop.spec.epochs if whole_epochs else 1,
            steps_per_epoch=loop.steps_per_epoch if whole_epochs else loop.num_steps,
            callbacks=[CountSteps(loop, self)],
            verbose=0,
        )

    def _arriving_batches(self, loop: TrainingLoop) -> tf.data.Dataset:
        batch_size = self.spec.global_batch_size // self.num_processes
        signature = (
            tf.TensorSpec((batch_size, *self.data.image_shape), tf.uint8),
            tf.TensorSpec(*target_shape(batch_size, self.data.num_classes, self.data.multi_label)),
        )
        return tf.data.Dataset.from_generator(loop.iterate_handed_batches, output_signature=signature)

    def _keep(self, batch: tuple) -> tf.data.Dataset:
        """Make every step of fit train on `batch`, which stays on the devices, whatever the data set yields.

        tf.data takes each element to the devices anew, so the data set returned has one byte for each device. fit would
        build the loss from this element, unless the loss is built already.
        """
        take_step, strategy = self.model.train_step, self.model.distribute_strategy

        def train_step(_):
            replica = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
            return take_step(tuple(strategy.experimental_local_results(part)[replica] for part in batch))

        self.model.train_step = train_step
        targets = np.zeros(*target_shape(1, self.data.num_classes, self.data.multi_label))
        self.model.compute_loss(y=targets, y_pred=np.zeros((1, self.data.num_classes), np.float32))
        num_devices = self.spec.num_gpus // self.num_processes
        return tf.data.Dataset.from_tensors(np.zeros(num_devices, np.uint8)).repeat()

    @abc.abstractmethod
    def prefetch_to_devices(
        self, dataset: tf.data.Dataset, prefetch: int
    ) -> tf.data.Dataset | tf.distribute.DistributedDataset:
        """The data set that fit is given. tf.data, not the loop, takes batches to the devices, `prefetch` ahead."""

    def start_epoch(self) -> None:
        """Follow Keras, which sets its running mean of the loss back to zero at every epoch of fit."""
        self._loss_of_epoch, self._steps_of_epoch = 0.0, 0

    def read_window_loss(self, num_steps: int) -> float:
        """Return the window's mean loss, computed from two of Keras's running means over the epoch so far."""
        self._steps_of_epoch += num_steps
        before, self._loss_of_epoch = self._loss_of_epoch, self._steps_of_epoch * float(self.model.metrics[0].result())
        return (self._loss_of_epoch - before) / num_steps


def make_untuned_options() -> tf.data.Options:
    """Return options for data sets in which tf.data has nothing to tune.

    The tuning thread misses the end of its iterator: TensorFlow 2.21 wakes it before it marks the iterator as
    cancelled. Whoever waits for the thread then sleeps until its next round of tuning, up to a minute.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return options


class CountSteps(keras.callbacks.Callback):
    """Tells the loop when each step begins, and that it has ended when the next one begins or the epoch ends.

    A callback with on_train_batch_end would make Keras read the loss, and so wait for the devices, in every step.
    """

    def __init__(self, loop: TrainingLoop, backend: FitBackend):
        super().__init__()
        self._loop, self._backend = loop, backend

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._backend.start_epoch()

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        if batch > 0:
            self._loop.after_step()
        elif self._loop.spec.tier == "best":
            # The first iterator over a generator's data set makes malloc map each large block anew (TensorFlow 2.21).
            set_malloc_thresholds()
        self._loop.begin_step()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._loop.after_step()


def accumulate_in_fit(model: keras.Model, count: int) -> None:
    """Have each step of fit add the gradients of `count` parts of its batch before it updates the weights.

    The optimizers' own gradient_accumulation_steps updates inside tf.cond, which strategies with several replicas
    refuse, and counts each part as a step of the learning rate's schedule.
    """

    def train_step(data: tuple) -> dict:
        images, labels = data

        def compute(x, y):
            with tf.GradientTape() as tape:
                loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True), training=True) / count
                scaled = model.optimizer.scale_loss(loss)
            return loss, tape.gradient(scaled, model.trainable_weights)

        loss, gradients = sum_over_parts(compute, images, labels, count)
        num_replicas = tf.distribute.get_strategy().num_replicas_in_sync
        model._loss_tracker.update_state(loss * num_replicas, sample_weight=tf.shape(labels)[0])
        model.optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        return model.get_metrics_result()

    model.train_step = train_step
