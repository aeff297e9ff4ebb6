"""Loss scaling of the Keras family: LossScaleOptimizer, with one decision for all devices and a count of skips."""

from collections.abc import Callable

import keras
import tensorflow as tf

from howmanygpus.measure.loss_scaling import BACKOFF_FACTOR, GROWTH_FACTOR, GROWTH_INTERVAL, LossScale
from howmanygpus.measure.spec import RunSpec


class LossScaler(keras.optimizers.LossScaleOptimizer):
    """A loss scaling that skips a step if the gradients of any replica are not finite.

    Keras itself only checks the gradients of the first replica, or those of each process before they are summed. An
    overflow on another device alone would reach the weights, or processes would wait for each other forever.
    """

    def build(self, var_list: list) -> None:
        if self.built:
            return
        options = {"shape": (), "dtype": "int", "initializer": "zeros", "aggregation": "none"}
        self.skipped_steps = self.add_variable(name="skipped_steps", **options)
        super().build(var_list)

    @property
    def steps(self) -> tf.Tensor:
        """Return the number of steps before this one, skipped ones included."""
        return tf.cast(self.inner_optimizer.iterations.value, tf.int32) + tf.cast(self.skipped_steps.value, tf.int32)

    def check_finite(self, grads: list) -> tf.Tensor:
        finite = super().check_finite(grads)
        if tf.distribute.get_strategy().num_replicas_in_sync == 1:
            return finite
        context = tf.distribute.get_replica_context()
        return tf.equal(context.all_reduce(tf.distribute.ReduceOp.SUM, tf.cast(~finite, tf.float32)), 0.0)

    def _stateful_handle_non_finite_grads(self) -> None:
        super()._stateful_handle_non_finite_grads()
        self.skipped_steps.assign_add(1)

    def read(self) -> LossScale:
        return LossScale(int(self.skipped_steps.numpy()), float(self.dynamic_scale.numpy()))

    def describe(self) -> str:
        """Return the text for `settings` of run.schema.yaml."""
        growth = f"x {GROWTH_FACTOR:g} after {self.dynamic_growth_steps} steps"
        initial = f"keras.optimizers.LossScaleOptimizer, a subclass, {self.initial_scale:g} at first"
        return f"{initial}, {growth}, x {BACKOFF_FACTOR:g} after a skipped one"


def scale_losses(
    optimizer: keras.optimizers.Optimizer, spec: RunSpec, variables: list, adapt: Callable[[type], type]
) -> LossScaler:
    """Return an optimizer with loss scaling around it. adapt: derives its class, so that it gets averaged gradients."""
    scaler = adapt(LossScaler)(optimizer, initial_scale=spec.loss_scale, dynamic_growth_steps=GROWTH_INTERVAL)
    scaler.build(variables)
    return scaler
