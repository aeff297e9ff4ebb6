"""What the backends under MirroredStrategy and its kin share: a replica of the model on each device of a process."""

import abc

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from trainbench.data import PreparedData
from trainbench.families.keras import KerasBackend, build_optimizer
from trainbench.spec import RunSpec


def find_devices(spec: RunSpec) -> list[str]:
    """The GPUs that the launcher made visible, or the host split over the cores that it bound this process to."""
    if spec.device_kind == "cuda":
        for gpu in tf.config.list_physical_devices("GPU"):
            # Memory grows on demand, so that the peak says what was used.
            tf.config.experimental.set_memory_growth(gpu, True)
        return [f"/gpu:{i}" for i in range(spec.num_gpus)]
    tf.config.threading.set_intra_op_parallelism_threads(spec.num_gpus * spec.cores_per_device)
    tf.config.threading.set_inter_op_parallelism_threads(max(2, spec.num_gpus))
    host = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(host, [tf.config.LogicalDeviceConfiguration()] * spec.num_gpus)
    return [f"/cpu:{i}" for i in range(spec.num_gpus)]


def count_local_replicas(strategy: tf.distribute.Strategy) -> int:
    """Replicas in this process."""
    return len(strategy.extended.worker_devices)


def split_over_replicas(strategy: tf.distribute.Strategy, *arrays: np.ndarray):
    """Each array's equal parts, one per replica of this process, as the values that strategy.run takes."""
    num_local = count_local_replicas(strategy)
    parts = [np.split(array, num_local) for array in arrays]
    return tuple(
        strategy.experimental_distribute_values_from_function(
            lambda context, part=part: tf.constant(part[context.replica_id_in_sync_group % num_local])
        )
        for part in parts
    )


def build_predict(strategy: tf.distribute.Strategy, model: keras.Model):
    """A function from images to logits, each replica predicting its part."""
    on_replicas = tf.function(lambda images: strategy.run(lambda part: model(part, training=False), args=(images,)))

    def predict(images: np.ndarray) -> np.ndarray:
        logits = on_replicas(*split_over_replicas(strategy, images))
        return np.concatenate([part.numpy() for part in strategy.experimental_local_results(logits)])

    return predict


def average_statistics(strategy: tf.distribute.Strategy, model: keras.Model) -> None:
    """Give every replica the mean of all running statistics.

    Keras 3 leaves each replica its own, evaluates each part of a batch with others, and saves those of the first.
    """
    if strategy.num_replicas_in_sync == 1:
        return
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            for statistic in (layer.moving_mean, layer.moving_variance):
                replicas = strategy.experimental_local_results(statistic.value)
                statistic.assign(tf.add_n([tf.identity(replica) for replica in replicas]) / len(replicas))


class MirroredBackend(KerasBackend):
    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        self.strategy = self.build_strategy(spec)
        with self.strategy.scope():
            self.set_up(spec, data, weights)
            self.prepare_training(build_optimizer(spec.optimizer, learning_rates))
        self._predict = build_predict(self.strategy, self.model)

    def build_strategy(self, spec: RunSpec) -> tf.distribute.Strategy:
        return tf.distribute.MirroredStrategy(find_devices(spec))

    @abc.abstractmethod
    def prepare_training(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Called once the model has its weights, in the strategy's scope."""

    def prepare_evaluation(self) -> None:
        average_statistics(self.strategy, self.model)

    def predict(self, images: np.ndarray) -> np.ndarray:
        return self._predict(images)
