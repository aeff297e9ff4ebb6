"""Code that the backends under MirroredStrategy and its variants share: a replica of the model on each device."""

import abc
import functools

import keras
import numpy as np
import tensorflow as tf

from howmanygpus.measure.frameworks.keras.family import KerasBackend, build_optimizer, map_variables
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import UnsupportedError
from howmanygpus.measure.models.initialization import is_trainable
from howmanygpus.measure.spec import RunSpec


def set_memory_growth(spec: RunSpec, gpus: list[tf.config.PhysicalDevice]) -> None:
    """Set how TensorFlow takes the memory of GPUs, if the run says it."""
    for gpu in gpus if spec.memory_growth is not None else []:
        tf.config.experimental.set_memory_growth(gpu, spec.memory_growth)


def set_up_devices(spec: RunSpec) -> list[str]:
    """Return the GPUs that the launcher made visible, or virtual devices on the cores that it bound this process to."""
    if spec.device_kind == "cuda":
        set_memory_growth(spec, tf.config.list_physical_devices("GPU"))
        return [f"/gpu:{i}" for i in range(spec.num_gpus)]
    tf.config.threading.set_intra_op_parallelism_threads(spec.num_gpus * spec.cores_per_device)
    tf.config.threading.set_inter_op_parallelism_threads(max(2, spec.num_gpus))
    host = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(host, [tf.config.LogicalDeviceConfiguration()] * spec.num_gpus)
    return [f"/cpu:{i}" for i in range(spec.num_gpus)]


@functools.cache
def mirror(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    """Return the one strategy of this process, with which the parity gate does several tasks.

    A second strategy would number its collectives as the first does, and TensorFlow would mix them up.
    """
    return tf.distribute.MirroredStrategy(list(devices))


def without_exchange(optimizer_class: type) -> type:
    """Return a subclass whose replicas each update their own variables by their own gradients.

    Keras 3 has no option for it. Raises UnsupportedError if Keras no longer has the method that sums the gradients.
    """
    if not hasattr(optimizer_class, "_all_reduce_sum_gradients"):
        raise UnsupportedError(f"Keras {keras.__version__} sums gradients in another way than Keras 3.15 does")

    class Alone(optimizer_class):
        def _all_reduce_sum_gradients(self, grads_and_vars):
            return grads_and_vars

    return Alone


class MirroredBackend(KerasBackend):
    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        self.strategy = self.build_strategy(spec)
        with self.strategy.scope():
            self.set_up(spec, data, weights)
            options = {} if spec.exchanges else {"adapt": without_exchange}
            self.prepare_training(build_optimizer(spec, learning_rates, self.model, **options))
            self.draw_apart()
        self._predict = tf.function(self._compute_logits)
        self._predict_on_all = tf.function(lambda images: self.strategy.run(self._compute_logits, (images,)))

    def build_strategy(self, spec: RunSpec) -> tf.distribute.Strategy:
        return mirror(tuple(set_up_devices(spec)))

    def replicas_of(self, value) -> tuple:
        return self.strategy.experimental_local_results(value)

    @abc.abstractmethod
    def prepare_training(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Called in the strategy's scope, once the model has its weights."""

    def prepare_evaluation(self) -> None:
        """Give every replica the mean of all running statistics, or those of the first replica.

        In Keras 3 each replica keeps its own, so each part of a batch is evaluated with different ones, and only those
        of the first replica are saved.
        """
        if self.strategy.num_replicas_in_sync == 1:
            return
        num_united = 1 if self.spec.eval_batchnorm == "first" else None
        for statistic in self.list_statistics():
            # In float64, so that the mean of equal values is the same value.
            replicas = [tf.cast(each, tf.float64) for each in self.replicas_of(statistic.value)[:num_united]]
            statistic.assign(tf.cast(tf.add_n(replicas) / len(replicas), statistic.dtype))

    def settings(self) -> dict[str, str]:
        return super().settings() | {"exchange": self._describe_exchange()}

    def _describe_exchange(self) -> str:
        if not self.spec.exchanges:
            return "none, each replica updates its own variables"
        if self.strategy.num_replicas_in_sync == 1:
            return "none, one replica"
        return f"MirroredStrategy, {type(self.strategy.extended._cross_device_ops).__name__}"

    def replicas(self) -> list[dict[str, np.ndarray]]:
        local = self.strategy.experimental_local_results
        copies = {name: local(variable.value) for name, variable in map_variables(self.model).items()}
        parameters = {name: arrays for name, arrays in copies.items() if is_trainable(name)}
        num_replicas = len(self.strategy.extended.worker_devices)
        return [{name: arrays[i].numpy() for name, arrays in parameters.items()} for i in range(num_replicas)]

    def put_on_device(self, images: np.ndarray, labels: np.ndarray) -> tuple:
        return self._put_on_replicas(images), self._put_on_replicas(labels)

    def put_for_prediction(self, images: np.ndarray):
        if self.spec.eval_devices == "first":
            return self.copier.put(images, self.first_device)
        return self._put_on_replicas(images)

    def _put_on_replicas(self, array: np.ndarray):
        """Put equal parts of an array on the devices of this process's replicas, as a value for strategy.run."""
        devices = self.strategy.extended.worker_devices
        parts = np.split(array, len(devices))

        def put(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
            local = context.replica_id_in_sync_group % len(devices)
            return self.copier.put(parts[local], devices[local])

        return self.strategy.experimental_distribute_values_from_function(put)

    def predict(self, batch) -> np.ndarray:
        if self.spec.eval_devices == "first":
            with tf.device(self.first_device):
                return self._predict(batch).numpy()
        logits = self._predict_on_all(batch)
        return np.concatenate([part.numpy() for part in self.strategy.experimental_local_results(logits)])

    def _compute_logits(self, images):
        return self.model(images, training=False)

    @property
    def first_device(self) -> str:
        return self.strategy.extended.worker_devices[0]
