"""The loss of a step, from logits and the targets of measure.loop.targets."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.spec import RunSpec


def compute_sigmoid_losses(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the weighted sigmoid cross-entropy of each image's labels."""
    present = (targets > 0).astype(logits.dtype)
    return jnp.sum(jnp.abs(targets) * optax.sigmoid_binary_cross_entropy(logits, present), axis=-1)


def build_loss(spec: RunSpec, data: PreparedData) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Return a function of logits and targets that returns the loss of each image."""
    if data.multi_label:
        return compute_sigmoid_losses
    if not spec.label_smoothing:
        return optax.softmax_cross_entropy_with_integer_labels

    def compute_smoothed_losses(logits: jax.Array, labels: jax.Array) -> jax.Array:
        one_hot = jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
        return optax.softmax_cross_entropy(logits, optax.smooth_labels(one_hot, spec.label_smoothing))

    return compute_smoothed_losses
