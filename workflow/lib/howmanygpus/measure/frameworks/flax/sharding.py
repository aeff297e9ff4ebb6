"""
JAX with flax nnx and optax: one process per node, the batch sharded over all devices, one jitted step under shard_map.

BatchNorm is local to each device, which keeps its own running statistics; evaluation uses their mean.
"""

import functools
import os
from collections.abc import Callable, Iterable
from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from howmanygpus.measure.frameworks.flax.family import (
    build_network,
    build_optimizer,
    count_steps,
    read_weights,
    set_precision,
)
from howmanygpus.measure.frameworks.flax.layers.context import DEVICE_AXIS
from howmanygpus.measure.frameworks.flax.losses import build_loss
from howmanygpus.measure.frameworks.flax.memory import preallocate_gpu_memory
from howmanygpus.measure.frameworks.flax.settings import describe_settings
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import StepwiseBackend
from howmanygpus.measure.spec import RunSpec

EVERYWHERE, SHARDED = PartitionSpec(), PartitionSpec(DEVICE_AXIS)


class JaxSharding(StepwiseBackend):
    out_of_memory_errors = (jax.errors.JaxRuntimeError,)
    out_of_memory_text = "RESOURCE_EXHAUSTED"

    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        self.spec, self._data, self.devices = spec, data, set_up_devices(spec)
        self.rank, self.num_processes = jax.process_index(), jax.process_count()
        # All devices of all processes. Those of one process are adjacent, so that its share of the batch is one block.
        mesh = Mesh(np.array(jax.devices(self.devices[0].platform)[: spec.num_gpus]), (DEVICE_AXIS,))
        self._sharded, self._everywhere = NamedSharding(mesh, SHARDED), NamedSharding(mesh, EVERYWHERE)
        everywhere = self._everywhere
        self.load(weights)
        self.loss_function = build_loss(spec, data)
        self.optimizer = build_optimizer(spec.optimizer, learning_rates)
        # One program for all moments of the optimizer. Outside of jit, JAX would compile one for each shape.
        self.optimizer_state = jax.jit(self.optimizer.init, out_shardings=everywhere)(self.parameters)
        on_shards = functools.partial(jax.shard_map, mesh=mesh)
        # Without exchange each device's copy of the parameters differs, which JAX would refuse to call one array.
        step = on_shards(
            self._step_on_shard,
            in_specs=(EVERYWHERE, EVERYWHERE, SHARDED, SHARDED, SHARDED),
            out_specs=(EVERYWHERE, EVERYWHERE, SHARDED, EVERYWHERE),
            check_vma=spec.exchanges,
        )
        self._step = jax.jit(step, donate_argnums=(0, 1, 2))
        of_first = spec.eval_batchnorm == "first"
        self._unite = jax.jit(
            lambda statistics: jax.tree.map(lambda array: array[0] if of_first else array.mean(axis=0), statistics),
            out_shardings=everywhere,
        )
        self._predict = jax.jit(
            on_shards(
                self._predict_on_shard, in_specs=(EVERYWHERE, EVERYWHERE, SHARDED), out_specs=SHARDED, check_vma=False
            )
        )
        self._predict_on_first = jax.jit(self._predict_on_shard)
        specs = (EVERYWHERE, SHARDED, EVERYWHERE, SHARDED, SHARDED)
        self._measure = jax.jit(on_shards(self._measure_on_shard, in_specs=specs, out_specs=(EVERYWHERE, EVERYWHERE)))
        self._only_first = spec.eval_devices == "first"
        self._losses: list[jax.Array] = []

    def load(self, weights: dict[str, np.ndarray]) -> None:
        network = build_network(self.spec, self._data, weights)
        # After a user's file was imported, which may set it for the whole process.
        set_precision(self.spec, self.devices[0])
        self.graph, parameters, statistics, self.rest = nnx.split(network, nnx.Param, nnx.BatchStat, ...)
        self.parameters = jax.device_put(parameters, self._everywhere)
        # One copy of the running statistics per device, along a first axis.
        copies = jax.tree.map(lambda array: np.stack([array] * self.spec.num_gpus), statistics)
        self.statistics = jax.device_put(copies, self._sharded)

    def _step_on_shard(self, parameters, optimizer_state, statistics, images, labels):
        """Take one device's part of a step: forward and backward on its shard, then the mean of all gradients."""
        own_statistics = jax.tree.map(lambda array: array[0], statistics)
        steps = count_steps(optimizer_state)

        def compute_loss(parameters, statistics, images, labels):
            network = nnx.merge(self.graph, parameters, statistics, self.rest, copy=True)
            network.train()
            losses = self.loss_function(network(images, steps), labels)
            return losses.mean(), nnx.state(network, nnx.BatchStat)

        # For parameters marked as varying by device, JAX does not sum the gradients itself.
        varying = jax.lax.pcast(parameters, DEVICE_AXIS, to="varying")
        differentiate = functools.partial(jax.value_and_grad(compute_loss, has_aux=True), varying)
        if self.spec.accumulate > 1:
            differentiate = accumulate(differentiate, parameters, self.spec.accumulate)
        (loss, new_statistics), gradients = differentiate(own_statistics, images, labels)
        if self.spec.exchanges:
            gradients, loss = jax.lax.pmean((gradients, loss), DEVICE_AXIS)
        updates, optimizer_state = self.optimizer.update(gradients, optimizer_state, parameters)
        new_statistics = jax.tree.map(lambda array: array[None], new_statistics)
        return optax.apply_updates(parameters, updates), optimizer_state, new_statistics, loss

    def _measure_on_shard(self, parameters, statistics, steps, images, labels):
        """Return the sum of the gradients of all per-device batches of a step, and that of their squared norms."""
        own_statistics = jax.tree.map(lambda array: array[0], statistics)
        varying = jax.lax.pcast(parameters, DEVICE_AXIS, to="varying")

        def compute_loss(parameters, images, labels):
            network = nnx.merge(self.graph, parameters, own_statistics, self.rest, copy=True)
            network.train()
            return self.loss_function(network(images, steps), labels).mean()

        def add_part(total, part):
            gradients = jax.grad(compute_loss)(varying, *part)
            norm = sum(jnp.square(each).sum() for each in jax.tree.leaves(gradients))
            return jax.tree.map(jnp.add, total, gradients), norm

        parts = [array.reshape(self.spec.accumulate, -1, *array.shape[1:]) for array in (images, labels)]
        nothing = jax.lax.pcast(jax.tree.map(jnp.zeros_like, parameters), DEVICE_AXIS, to="varying")
        total, norms = jax.lax.scan(add_part, nothing, parts)
        return jax.lax.psum((total, norms.sum()), DEVICE_AXIS)

    def measure_gradients(self, batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
        """Each device computes the gradients of its own batches, which are added over all devices of all processes."""
        total, norms, count = None, 0.0, 0
        steps = count_steps(self.optimizer_state)
        for batch in batches:
            gradients, norm = self._measure(self.parameters, self.statistics, steps, *self.put_on_device(*batch))
            total = gradients if total is None else jax.tree.map(jnp.add, total, gradients)
            norms, count = norms + float(norm), count + self.spec.num_gpus * self.spec.accumulate
        mean = [np.asarray(each, np.float64) / count for each in jax.tree.leaves(total)]
        return norms / count, float(sum(np.square(each).sum() for each in mean))

    def _predict_on_shard(self, parameters, statistics, images):
        network = nnx.merge(self.graph, parameters, statistics, self.rest)
        network.eval()
        return network(images)

    def _shard(self, array: np.ndarray) -> jax.Array:
        """Spread this process's part of a batch over its devices, as part of the array of all processes."""
        if self.num_processes == 1:
            return jax.device_put(array, self._sharded)
        return jax.make_array_from_process_local_data(self._sharded, array)

    def put_on_device(self, images: np.ndarray, labels: np.ndarray) -> tuple[jax.Array, jax.Array]:
        return self._shard(images), self._shard(labels)

    def put_for_prediction(self, images: np.ndarray) -> jax.Array:
        return jax.device_put(images, self.devices[0]) if self._only_first else self._shard(images)

    def wait_for_batch(self, batch: tuple[jax.Array, jax.Array]) -> None:
        jax.block_until_ready(batch)

    def train_step(self, batch: tuple[jax.Array, jax.Array], learning_rate: float) -> None:
        """Take a step. The optimizer looks up the learning rate itself, as optax's schedules do."""
        self.parameters, self.optimizer_state, self.statistics, loss = self._step(
            self.parameters, self.optimizer_state, self.statistics, *batch
        )
        self._losses.append(loss)

    def prepare_evaluation(self) -> None:
        self._evaluated = self.parameters, self._unite(self.statistics)
        if self._only_first:
            self._evaluated = jax.tree.map(lambda array: array.addressable_data(0), self._evaluated)

    def predict(self, batch: jax.Array) -> np.ndarray:
        if self._only_first:
            return np.asarray(self._predict_on_first(*self._evaluated, batch))
        logits = self._predict(*self._evaluated, batch)
        own = sorted(logits.addressable_shards, key=lambda shard: shard.index[0].start or 0)
        return np.concatenate([np.asarray(shard.data) for shard in own])

    def mark_step(self) -> jax.Array:
        """All results of a jitted step are there at the same time, so its loss stands for them."""
        return self._losses[-1]

    def wait_for_step(self, marker: jax.Array) -> None:
        jax.block_until_ready(marker)

    def wait_until_idle(self) -> None:
        jax.block_until_ready((self.parameters, self.optimizer_state, self.statistics))

    def read_window_loss(self, num_steps: int) -> float:
        """Return the mean of all devices: each process has the losses of the global batch."""
        total = np.sum(jax.device_get(self._losses), dtype=np.float64)
        self._losses.clear()
        return float(total) / num_steps

    def max_over_ranks(self, value: float) -> float:
        """The value passes through float32, which has seven digits."""
        return value if self.num_processes == 1 else float(np.max(process_allgather(np.float32(value))))

    def weights(self) -> dict[str, np.ndarray]:
        return read_weights(nnx.merge_state(self.parameters, self._unite(self.statistics)))

    def replicas(self) -> list[dict[str, np.ndarray]]:
        """Ask each device for its own copy: addressable_data would return the first one's for each."""
        return [
            read_weights(jax.tree.map(lambda array, i=i: array.addressable_shards[i].data, self.parameters))
            for i in range(len(self.devices))
        ]

    def peak_memory_bytes(self) -> int | None:
        if self.devices[0].platform == "cpu":
            return None
        # XLA_PYTHON_CLIENT_ALLOCATOR=platform counts nothing.
        peaks = [(device.memory_stats() or {}).get("peak_bytes_in_use") for device in self.devices]
        known = [peak for peak in peaks if peak is not None]
        return max(known) if len(known) == len(peaks) else None

    @classmethod
    def read_memory_in_use_frac(cls) -> float | None:
        """Return the peak in JAX's own pool; XLA frees the memory of failed trials before it reports them."""
        with suppress(RuntimeError):  # of a JAX that could not begin
            pools = [device.memory_stats() or {} for device in jax.local_devices()]
            used = [pool["peak_bytes_in_use"] / pool["bytes_limit"] for pool in pools if pool.get("bytes_limit")]
            return max(used, default=None)
        return None

    def versions(self) -> dict[str, str]:
        versions = {"jax": jax.__version__, "optax": optax.__version__}
        if self.devices[0].platform != "cpu":
            versions["platform"] = self.devices[0].client.platform_version.splitlines()[0]
        return versions

    def settings(self) -> dict[str, str]:
        return describe_settings(self.spec, self.devices)

    def close(self) -> None:
        if self.num_processes > 1:
            jax.distributed.shutdown()

    def device_model(self) -> str | None:
        return None if self.devices[0].platform == "cpu" else self.devices[0].device_kind


def accumulate(differentiate: Callable, parameters: nnx.State, count: int) -> Callable:
    """Return a function like `differentiate` that takes `count` parts of its batch one after the other.

    differentiate: maps (statistics, images, labels) of one device to ((loss, new statistics), gradients).
    """

    def add_part(carried, part):
        losses, gradients, statistics = carried
        (loss, statistics), added = differentiate(statistics, *part)
        return (losses + loss, jax.tree.map(jnp.add, gradients, added), statistics), None

    def differentiate_all(statistics, images, labels):
        parts = [array.reshape(count, -1, *array.shape[1:]) for array in (images, labels)]
        nothing = jnp.zeros(()), jax.tree.map(jnp.zeros_like, parameters)
        losses, gradients = jax.lax.pcast(nothing, DEVICE_AXIS, to="varying")
        (losses, gradients, statistics), _ = jax.lax.scan(add_part, (losses, gradients, statistics), parts)
        return (losses / count, statistics), jax.tree.map(lambda total: total / count, gradients)

    return differentiate_all


def set_up_devices(spec: RunSpec) -> list[jax.Device]:
    """Return this process's devices: the GPUs that the launcher made visible, or the host split into as many devices.

    With several nodes there is one process per node, and the processes connect to the first one's address. Raises
    RuntimeError if JAX finds fewer devices: it would train on them as if they were all.
    """
    num_devices = spec.devices_per_node
    if spec.device_kind == "cpu":
        jax.config.update("jax_platforms", "cpu")
        if num_devices > 1:
            # XLA runs all CPU devices of a process on one pool of threads, by default one thread per core. A device
            # that waits in an all-reduce holds its thread. Without a spare thread for each device, the others may never
            # arrive.
            os.environ["PJRT_NPROC"] = str(num_devices * (spec.cores_per_device + 1))
        if jax.config.jax_num_cpu_devices != num_devices:
            jax.config.update("jax_num_cpu_devices", num_devices)
    else:
        preallocate_gpu_memory()
    if spec.num_nodes > 1:
        first = os.environ["HOWMANYGPUS_ADDRESSES"].split(",")[0]
        # By default, JAX in a step of SLURM gives each process one GPU, by the number of the process on the node.
        own = list(range(num_devices))
        jax.distributed.initialize(first, int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]), own)
    found = jax.local_devices(backend=spec.device_kind)
    if len(found) < num_devices:
        raise RuntimeError(
            f"JAX finds {len(found)} of the {num_devices} devices on this node; CUDA_VISIBLE_DEVICES is "
            f"{os.environ.get('CUDA_VISIBLE_DEVICES')!r}, and a part of a GPU (MIG) can only be used alone"
        )
    return found[:num_devices]


BACKEND = JaxSharding
