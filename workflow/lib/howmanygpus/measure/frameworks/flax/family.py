"""Code that the backends of the JAX family share: network, weights, optimizers, precision."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import LayerContext
from howmanygpus.measure.frameworks.flax.walker import build
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import UnsupportedError
from howmanygpus.measure.models.initialization import is_decayed
from howmanygpus.measure.models.own import import_own_models
from howmanygpus.measure.spec import OptimizerSpec, RunSpec

MATMUL_PRECISIONS = {"fp32": "highest", "tf32": "tensorfloat32", "bf16": "default"}
"""Without a precision XLA computes float32 in TF32 on GPUs that have it."""


class Network(nnx.Module):
    """A model and, before it, the normalisation of its uint8 images, which happens on the device."""

    def __init__(self, spec: RunSpec, data: PreparedData):
        self.is_own = spec.model_file is not None
        if self.is_own:
            self.own = import_own_models("flax").build_for_run(spec, data.image_shape, data.num_classes)
        else:
            dtype = jnp.bfloat16 if spec.precision == "bf16" else jnp.float32
            context = LayerContext(spec.batchnorm, dtype, spec.seed, eval_batchnorm=spec.eval_batchnorm)
            self.model = build(spec.model, data.image_shape, data.num_classes, context, **spec.model_options)
        self.mean, self.std = tuple(data.channel_mean), tuple(data.channel_std)

    def __call__(self, images, steps=None):
        """images: uint8 (batch, height, width, channels). Returns float32 logits (batch, classes).

        steps: in training, the optimizer steps taken so far, from which a model with dropout draws.
        """
        x = (images.astype(jnp.float32) - jnp.array(self.mean)) / jnp.array(self.std)
        if self.is_own:
            return self.own(x).astype(jnp.float32)
        draws = steps is not None and hasattr(self.model, "image_keys")
        keys = [self.model.image_keys(images, steps)] if draws else []
        return self.model(x, *keys).astype(jnp.float32)


def build_network(spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray]) -> Network:
    """Return the network with canonical weights.

    flax draws weights of its own, and compiles a program for each shape to draw. A network of the workflow is therefore
    built from shapes alone. A user's model is built with its draws, because it may compute with them.
    """
    network = Network(spec, data) if spec.model_file else nnx.eval_shape(lambda: Network(spec, data))
    load_weights(network, weights)
    return network


def set_precision(spec: RunSpec, device: jax.Device) -> None:
    """Choose how XLA computes float32, and refuse what an older GPU lacks; XLA would compute in float32 there."""
    needs_newer = spec.precision in ("tf32", "bf16") and device.platform == "gpu"
    if needs_newer and tuple(map(int, device.compute_capability.split("."))) < (8, 0):
        raise UnsupportedError(f"{spec.precision} needs compute capability 8.0 or later, not {device.device_kind}")
    jax.config.update("jax_default_matmul_precision", MATMUL_PRECISIONS[spec.precision])


def canonical_names(state: nnx.State) -> dict[tuple, str]:
    """Return the canonical name of every variable of a whole model, by its path ("model", layer, variable)."""
    paths = [path for path, _ in nnx.to_flat_state(state)]
    if paths and paths[0][0] == "own":
        return import_own_models("flax").canonical_names(state)
    norms = {path[:-1] for path in paths if path[-1] == "scale"}
    roles = {"bias": "offset", "var": "variance"}
    return {path: f"{path[-2]}.{roles.get(path[-1], path[-1]) if path[:-1] in norms else path[-1]}" for path in paths}


def load_weights(network: nnx.Module, weights: dict[str, np.ndarray]) -> None:
    """Copy canonical weights in, whose layouts are those of flax. Raises ValueError naming misfits."""
    state = nnx.state(network, (nnx.Param, nnx.BatchStat))
    names, flat = canonical_names(state), dict(nnx.to_flat_state(state))
    if set(names.values()) != set(weights):
        raise ValueError(
            f"parameters and model differ in {sorted(set(names.values()) ^ set(weights))}; name them alike"
        )
    for path, name in names.items():
        if flat[path].get_value().shape != weights[name].shape:
            raise ValueError(f"{name} has shape {weights[name].shape}, the model's {flat[path].get_value().shape}")
        flat[path] = flat[path].replace(weights[name])
    nnx.update(network, nnx.from_flat_state(flat))


def read_weights(state: nnx.State) -> dict[str, np.ndarray]:
    """Return the arrays of a whole model's state by canonical name."""
    names = canonical_names(state)
    return {names[path]: np.asarray(variable.get_value()) for path, variable in nnx.to_flat_state(state)}


def build_optimizer(spec: OptimizerSpec, learning_rates: np.ndarray) -> optax.GradientTransformation:
    """Return the optimizer. The weight decay of sgd and adam is L2 regularisation: it is added to the gradient."""

    def rate(step):
        return jnp.asarray(learning_rates)[jnp.minimum(step, len(learning_rates) - 1)]

    mask, moments = functools.partial(mark_decayed, spec), {"b1": spec.beta1, "b2": spec.beta2, "eps": spec.epsilon}
    if spec.name == "adamw":
        return optax.adamw(rate, **moments, weight_decay=spec.weight_decay, mask=mask)
    update = optax.sgd(rate, momentum=spec.momentum or None) if spec.name == "sgd" else optax.adam(rate, **moments)
    return optax.chain(optax.add_decayed_weights(spec.weight_decay, mask), update) if spec.weight_decay else update


def count_steps(optimizer_state: optax.OptState) -> jax.Array:
    """Return the number of steps that the optimizer has taken, by which it looks up the learning rate."""
    return optax.tree_utils.tree_get_all_with_path(optimizer_state, "count")[0][1]


def mark_decayed(spec: OptimizerSpec, parameters: nnx.State) -> nnx.State:
    """Return whether weight decay applies, for each parameter of a whole model."""
    names = canonical_names(parameters)
    return nnx.from_flat_state(
        {
            path: variable.replace(is_decayed(names[path], spec.weight_decay_on))
            for path, variable in nnx.to_flat_state(parameters)
        }
    )
