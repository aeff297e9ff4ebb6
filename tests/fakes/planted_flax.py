"""JAX with one fault, for tests of the parity gate."""

import dataclasses
import itertools
import os

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from howmanygpus.measure.frameworks.flax import family, sharding
from howmanygpus.measure.frameworks.planted import Planted

MEAN, DECAY, SGD, COUNT = jax.lax.pmean, optax.add_decayed_weights, optax.sgd, sharding.count_steps
ACCUMULATE, NETWORK = sharding.accumulate, family.Network


def take_first(array, axis):
    return jax.lax.psum(jnp.where(jax.lax.axis_index(axis) == 0, array, 0), axis)


def average_faultily(fault):
    """A replacement of pmean, which the step calls with (gradients, loss)."""

    def average(values, axis):
        gradients, loss = values
        exchanged = jnp.float16 if fault == "exchanged_in_float16" else jnp.float32
        mean, loss = MEAN((jax.tree.map(lambda array: array.astype(exchanged), gradients), loss), axis)
        mean = jax.tree.map(lambda array: array.astype(jnp.float32), mean)
        if fault == "gradients_in_bf16":
            mean = jax.tree.map(round_floats, mean)
        elif fault == "summed":
            mean = jax.tree.map(lambda array: jax.lax.psum(array, axis), gradients)
        elif fault == "not_averaged":
            mean = jax.tree.map(lambda array: take_first(array, axis), gradients)
        elif fault == "one_layer_not_averaged":
            mean = jax.tree_util.tree_map_with_path(
                lambda path, array, own: take_first(own, axis) if "dense" in str(path) and own.ndim == 1 else array,
                mean,
                gradients,
            )
        return mean, loss

    return average


def sum_parts(differentiate, parameters, count):
    differentiate_all = ACCUMULATE(differentiate, parameters, count)

    def differentiate_and_sum(*batch):
        losses, gradients = differentiate_all(*batch)
        return losses, jax.tree.map(lambda gradient: gradient * count, gradients)

    return differentiate_and_sum


def decay_kernels_only(weight_decay, _):
    return DECAY(weight_decay, mask=lambda parameters: jax.tree.map(lambda array: array.ndim > 1, parameters))


def keep_rates(rate, momentum):
    return optax.chain(optax.scale_by_learning_rate(rate), optax.trace(momentum))


def count_none(_):
    return jnp.zeros((), jnp.int32)


class NetworkInFloat32(NETWORK):
    def __init__(self, spec, data):
        super().__init__(dataclasses.replace(spec, precision="fp32"), data)


def widen_backward(convolve):
    """Compute a convolution as it is, and its gradients in float32."""

    def convolve_and_widen(inputs, kernel, *arguments, **options):
        def apply(inputs, kernel):
            return convolve(inputs, kernel, *arguments, **options)

        def differentiate(kept, upstream):
            _, transpose = jax.vjp(apply, *(array.astype(jnp.float32) for array in kept))
            return tuple(
                gradient.astype(array.dtype)
                for gradient, array in zip(transpose(upstream.astype(jnp.float32)), kept, strict=True)
            )

        product = jax.custom_vjp(apply)
        product.defvjp(lambda *operands: (apply(*operands), operands), differentiate)
        return product(inputs, kernel)

    return convolve_and_widen


class NetworkWithWideBackward(NETWORK):
    def __init__(self, spec, data):
        super().__init__(spec, data)
        for _, module in nnx.iter_modules(self):
            if isinstance(module, nnx.Conv):
                module.conv_general_dilated = widen_backward(module.conv_general_dilated)


NETWORKS = {"precision_ignored": NetworkInFloat32, "backward_in_float32": NetworkWithWideBackward}


def round_floats(array):
    return array.astype(jnp.bfloat16).astype(array.dtype) if jnp.issubdtype(array.dtype, jnp.floating) else array


class PlantedFlax(Planted, sharding.JaxSharding):
    def __init__(self, *arguments):
        fault = os.environ["PLANTED_FAULT"]
        jax.lax.pmean = average_faultily(fault) if fault in FAULTS_OF_MEAN else MEAN
        optax.add_decayed_weights = decay_kernels_only if fault == "decay_of_kernels_only" else DECAY
        optax.sgd = keep_rates if fault == "rate_inside_momentum" else SGD
        sharding.accumulate = sum_parts if fault == "parts_summed" else ACCUMULATE
        family.Network = NETWORKS.get(fault, NETWORK)
        sharding.count_steps = count_none if fault == "same_units_in_every_step" else COUNT
        super().__init__(*arguments)
        if fault == "trained_in_float32":
            family.Network = NetworkInFloat32
            network = sharding.build_network(*arguments[:3])
            self.trained_graph = nnx.split(network, nnx.Param, nnx.BatchStat, ...)[0]
        if fault == "own_statistics":
            places = (sharding.EVERYWHERE, sharding.SHARDED, sharding.SHARDED)
            predict = jax.shard_map(
                lambda parameters, statistics, images: self._predict_on_shard(
                    parameters, jax.tree.map(lambda array: array[0], statistics), images
                ),
                **{"mesh": self._sharded.mesh, "in_specs": places, "out_specs": sharding.SHARDED, "check_vma": False},
            )
            self._predict = jax.jit(predict)
        if fault == "dropout_left_on":
            places = (sharding.EVERYWHERE, sharding.EVERYWHERE, sharding.EVERYWHERE, sharding.SHARDED)
            drop = jax.shard_map(
                self._drop_on_shard,
                **{"mesh": self._sharded.mesh, "in_specs": places, "out_specs": sharding.SHARDED, "check_vma": False},
            )
            predict, seeds = jax.jit(drop), itertools.count()
            self._predict = lambda *evaluated: predict(jax.random.key(next(seeds)), *evaluated)

    def prepare_evaluation(self):
        super().prepare_evaluation()
        if self.fault == "own_statistics" and not self._only_first:
            self._evaluated = self.parameters, self.statistics

    def _step_on_shard(self, *arguments):
        predicting = self.graph
        self.graph = self.trained_graph if self.fault == "trained_in_float32" else predicting
        results = super()._step_on_shard(*arguments)
        self.graph = predicting
        return results

    def _predict_on_shard(self, parameters, statistics, images):
        if self.fault not in ("batch_statistics", "units_dropped_in_evaluation"):
            return super()._predict_on_shard(parameters, statistics, images)
        network = nnx.merge(self.graph, parameters, statistics, self.rest, copy=True)
        return network(images, count_none(None))

    def _drop_on_shard(self, key, parameters, statistics, images):
        network = nnx.merge(self.graph, parameters, statistics, self.rest)
        network.eval()
        network.model.dense = nnx.Sequential(nnx.Dropout(0.2, rngs=nnx.Rngs(key)), network.model.dense)
        return network(images)

    def round_kept(self, kind):
        if kind == "moments":
            self.optimizer_state = jax.tree.map(round_floats, self.optimizer_state)
        elif kind == "weights":
            self.parameters = jax.tree.map(round_floats, self.parameters)
        else:
            self.statistics = jax.tree.map(round_floats, self.statistics)

    def drift(self):
        def perturb(array):
            parts = [shard.data for shard in array.addressable_shards]
            parts[1] = parts[1] + 1e-6
            return jax.make_array_from_single_device_arrays(array.shape, array.sharding, parts)

        self.parameters = jax.tree.map(perturb, self.parameters)


FAULTS_OF_MEAN = ("not_averaged", "one_layer_not_averaged", "summed", "gradients_in_bf16", "exchanged_in_float16")
BACKEND = PlantedFlax
