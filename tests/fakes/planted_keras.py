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
OPTIMIZER = keras.optimizers.Optimizer
REDUCE = OPTIMIZER._all_reduce_sum_gradients


def reduce_in_float16(optimizer, grads_and_vars):
    halves = [(tf.cast(gradient, tf.float16), variable) for gradient, variable in grads_and_vars]
    return [(tf.cast(gradient, tf.float32), variable) for gradient, variable in REDUCE(optimizer, halves)]


REDUCTIONS = {"none": REDUCE, "exchanged_in_float16": reduce_in_float16}


def widen_backward(product):
    """Compute a product as it is, and its gradients in float32."""

    @tf.custom_gradient
    def compute(inputs, kernel):
        def differentiate(upstream):
            wide = [tf.cast(operand, tf.float32) for operand in (inputs, kernel)]
            with tf.GradientTape() as tape:
                tape.watch(wide)
                result = product(*wide)
            gradients = tape.gradient(result, wide, tf.cast(upstream, tf.float32))
            return [tf.cast(gradient, upstream.dtype) for gradient in gradients]

        return product(inputs, kernel), differentiate

    return lambda inputs, kernel: compute(inputs, tf.convert_to_tensor(kernel))


class PlantedKeras(Planted, TensorflowMirrored):
    def __init__(self, *arguments):
        family.with_weight_decay = DECAYS.get(os.environ["PLANTED_FAULT"], DECAYS["none"])
        family.POLICIES = {} if os.environ["PLANTED_FAULT"] in IN_FLOAT32 else POLICIES
        family.Sgd = keras.optimizers.SGD if os.environ["PLANTED_FAULT"] == "rate_inside_momentum" else SGD
        OPTIMIZER._all_reduce_sum_gradients = REDUCTIONS.get(os.environ["PLANTED_FAULT"], REDUCE)
        super().__init__(*arguments)
        if self.fault == "backward_in_float32":
            for layer in self.model.layers:
                if isinstance(layer, keras.layers.Conv2D):
                    layer.convolution_op = widen_backward(layer.convolution_op)
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
        layers = list(self.model._flatten_layers())
        policies = [layer.dtype_policy for layer in layers]
        for layer in layers if self.fault == "trained_in_float32" else []:
            layer.dtype_policy = "float32"
        loss, gradients = super()._compute_gradients(images, labels)
        for layer, policy in zip(layers, policies, strict=True):
            layer.dtype_policy = policy
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
        if self.fault != "own_statistics":
            super().prepare_evaluation()

    def drift(self):
        variable = replicas.map_variables(self.model)["dense.bias"]
        second = self.strategy.experimental_local_results(variable.value)[1]
        second.assign_add(tf.fill(second.shape, 1e-6))


BACKEND = PlantedKeras
