"""TensorFlow under MirroredStrategy with one fault, for tests of the parity gate."""

import os

import keras
import tensorflow as tf

from howmanygpus.measure.frameworks.keras import family, replicas
from howmanygpus.measure.frameworks.keras.loss_scaling import LossScaler
from howmanygpus.measure.frameworks.keras.mirrored import TensorflowMirrored
from howmanygpus.measure.frameworks.planted import Planted


def decay_kernels_only(optimizer_class, weight_decay):
    class Decayed(optimizer_class):
        def update_step(self, gradient, variable, learning_rate):
            decayed = gradient + weight_decay * variable if len(variable.shape) > 1 else gradient
            super().update_step(decayed, variable, learning_rate)

    return Decayed


DECAYS = {"none": family.with_weight_decay, "decay_of_kernels_only": decay_kernels_only}
IN_FLOAT32 = ("computed_in_float32", "precision_ignored")
POLICIES, SGD = family.POLICIES, family.Sgd


class PlantedKeras(Planted, TensorflowMirrored):
    def __init__(self, *arguments):
        family.with_weight_decay = DECAYS.get(os.environ["PLANTED_FAULT"], DECAYS["none"])
        family.POLICIES = {} if os.environ["PLANTED_FAULT"] in IN_FLOAT32 else POLICIES
        family.Sgd = keras.optimizers.SGD if os.environ["PLANTED_FAULT"] == "rate_inside_momentum" else SGD
        super().__init__(*arguments)
        if self.fault == "dropout_left_on":
            dense = self.model.get_layer("dense")
            compute = dense.call
            dense.call = lambda inputs, training=None: compute(tf.nn.dropout(inputs, 0.2))
        if self.fault == "not_unscaled":
            self.optimizer._stateful_handle_finite_grads = self.optimizer.inner_optimizer.apply
        if self.fault == "first_device_decides":
            self.optimizer.check_finite = super(LossScaler, self.optimizer).check_finite
        if self.fault == "schedule_waits":
            self.optimizer.inner_optimizer._learning_rate.scaler = None
        if self.fault == "same_units_in_every_step":
            self.model.get_layer("image_keys")._count_steps = lambda: 0

    def _compute_gradients(self, images, labels):
        loss, gradients = super()._compute_gradients(images, labels)
        is_alone = {"not_averaged": lambda _: True, "one_layer_not_averaged": lambda name: name == "bias"}
        if self.fault in is_alone:
            # The strategy adds the gradients of all replicas: they are those of the first replica then.
            context = tf.distribute.get_replica_context()
            is_first = tf.cast(tf.equal(context.replica_id_in_sync_group, 0), tf.float32)
            factor = is_first * context.num_replicas_in_sync
            named = zip(self.model.trainable_variables, gradients, strict=True)
            gradients = [
                gradient * factor if is_alone[self.fault](variable.name) else gradient for variable, gradient in named
            ]
        if self.fault == "unscaled_twice_on_first":
            is_first = tf.equal(tf.distribute.get_replica_context().replica_id_in_sync_group, 0)
            factor = tf.where(is_first, 1.0 / self.optimizer.dynamic_scale.value, 1.0)
            gradients = [gradient * factor for gradient in gradients]
        if self.fault == "gradients_in_bf16":
            gradients = [tf.cast(tf.cast(gradient, tf.bfloat16), tf.float32) for gradient in gradients]
        if self.fault == "overflow_applied":
            gradients = [tf.where(tf.math.is_finite(gradient), gradient, 0.0) for gradient in gradients]
        factors = {"summed": self.strategy.num_replicas_in_sync, "parts_summed": self.spec.accumulate}
        if self.fault in factors:
            gradients = [gradient * float(factors[self.fault]) for gradient in gradients]
        return loss, gradients

    def round_kept(self, kind):
        variables = self.model.non_trainable_variables
        arrays = [variable for variable in variables if variable.path.endswith(("moving_mean", "moving_variance"))]
        if kind == "moments":
            arrays = self.optimizer.momentums
        if kind == "weights":
            arrays = self.model.trainable_variables
        for variable in arrays:
            for replica in self.strategy.experimental_local_results(variable.value):
                replica.assign(tf.cast(tf.cast(replica, tf.bfloat16), tf.float32))

    def _compute_logits(self, images):
        return self.model(images, training=self.fault in ("batch_statistics", "units_dropped_in_evaluation"))

    def prepare_evaluation(self):
        if self.fault != "first_replicas_statistics":
            super().prepare_evaluation()

    def drift(self):
        variable = replicas.map_variables(self.model)["dense.bias"]
        second = self.strategy.experimental_local_results(variable.value)[1]
        second.assign_add(tf.fill(second.shape, 1e-6))


BACKEND = PlantedKeras
