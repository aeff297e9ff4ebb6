"""
Horovod with a custom TensorFlow training loop: one process per device; NCCL on GPUs, gloo on CPUs.

BatchNorm is local to each process; evaluation uses the mean of the processes' running statistics. The constructor
(init, the choice of a device, the first process's weights) and the tape in the step are what a user of Horovod adds to
a TensorFlow program.
"""

import functools

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from howmanygpus.measure.frameworks.horovod import join
from howmanygpus.measure.frameworks.keras.family import build_optimizer, sum_over_parts
from howmanygpus.measure.frameworks.keras.horovod_backend import COMPRESSIONS, HorovodKerasBackend, select_device
from howmanygpus.measure.frameworks.keras.losses import add_penalties, build_loss
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import StepwiseBackend
from howmanygpus.measure.spec import RunSpec


class HorovodTensorflow(HorovodKerasBackend, StepwiseBackend):
    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        join(spec)
        hvd.init()
        self.rank, self.num_processes = hvd.rank(), hvd.size()
        select_device(spec, hvd.local_rank())
        self.set_up(spec, data, weights)
        self.optimizer = build_optimizer(spec, learning_rates, self.model)
        self.start_from_first(self.optimizer)
        self.loss_function = build_loss(spec, data)
        self._losses: list[tf.Tensor] = []

    @tf.function(autograph=False)  # nothing needs AutoGraph, which would take seconds for Horovod's code
    def _take_step(self, images, labels):
        variables, compression = self.model.trainable_variables, COMPRESSIONS[self.spec.gradient_compression]
        if self.spec.accumulate > 1 or not self.spec.exchanges:
            loss, gradients = sum_over_parts(self._compute_part, images, labels, self.spec.accumulate)
            if self.spec.exchanges:
                average = functools.partial(hvd.allreduce, op=hvd.Average, compression=compression)
                gradients = [average(gradient) for gradient in gradients]
            self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
            return loss
        with tf.GradientTape() as tape:
            loss = add_penalties(self.loss_function(labels, self.model(images, training=True)), self.model)
            scaled = self.optimizer.scale_loss(loss)
        tape = hvd.DistributedGradientTape(tape, compression=compression)
        gradients = tape.gradient(scaled, [variable.value for variable in variables])
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    def _compute_part(self, images, labels):
        """Return one part's share of the mean loss and its gradients, which are not exchanged yet."""
        with tf.GradientTape() as tape:
            loss = add_penalties(self.loss_function(labels, self.model(images, training=True)), self.model)
            loss /= self.spec.accumulate
            scaled = self.optimizer.scale_loss(loss)
        return loss, tape.gradient(scaled, [variable.value for variable in self.model.trainable_variables])

    def train_step(self, batch: tuple[tf.Tensor, tf.Tensor], learning_rate: float) -> None:
        """Take a step. The optimizer looks up the learning rate itself, as Keras's schedules do."""
        self._losses.append(self._take_step(*batch))

    def read_window_loss(self, num_steps: int) -> float:
        total = np.sum(tf.stack(self._losses).numpy(), dtype=np.float64)
        self._losses.clear()
        return float(total) / num_steps


BACKEND = HorovodTensorflow
