"""Code that Horovod's backends for TensorFlow and Keras share: the device, statistics, sums over processes."""

import horovod
import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

from howmanygpus.measure.frameworks.horovod import describe_exchange
from howmanygpus.measure.frameworks.keras.family import KerasBackend
from howmanygpus.measure.host.processes import bind_to_device_cores
from howmanygpus.measure.spec import RunSpec

COMPRESSIONS = {"none": hvd.Compression.none, "fp16": hvd.Compression.fp16}


def select_device(spec: RunSpec, local_rank: int) -> None:
    """Restrict this process to one GPU, or to the cores of one device."""
    bind_to_device_cores(local_rank, spec.cores_per_device)
    if spec.device_kind == "cuda":
        gpu = tf.config.list_physical_devices("GPU")[local_rank]
        tf.config.set_visible_devices(gpu, "GPU")
        # By default as in Horovod's documentation.
        tf.config.experimental.set_memory_growth(gpu, spec.memory_growth is not False)
    else:
        tf.config.threading.set_intra_op_parallelism_threads(spec.cores_per_device)
        tf.config.threading.set_inter_op_parallelism_threads(2)


class HorovodKerasBackend(KerasBackend):
    def start_from_first(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Create the optimizer's state, and give every process the first one's weights and state."""
        optimizer.build(self.model.trainable_variables)
        variables = [*self.model.variables, *optimizer.variables]
        hvd.broadcast_variables([variable.value for variable in variables], root_rank=0)
        self.draw_apart()

    def prepare_evaluation(self) -> None:
        """Give every process the mean of all running statistics, or the first process's."""
        of_first = self.spec.eval_batchnorm == "first"
        for statistic in self.list_statistics():
            # In float64, so that the mean of equal values is the same value.
            value = tf.cast(statistic.value, tf.float64)
            united = hvd.broadcast(value, root_rank=0) if of_first else hvd.allreduce(value, op=hvd.Average)
            statistic.assign(tf.cast(united, statistic.dtype))

    def put_on_device(self, images: np.ndarray, labels: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
        return self.copier.put(images), self.copier.put(labels)

    def put_for_prediction(self, images: np.ndarray) -> tf.Tensor:
        return self.copier.put(images)

    def predict(self, batch: tf.Tensor) -> np.ndarray:
        return self._predict(batch).numpy()

    @tf.function
    def _predict(self, images):
        return self.model(images, training=False)

    def sum_over_ranks(self, value: np.ndarray) -> np.ndarray:
        return hvd.allreduce(tf.constant(value), op=hvd.Sum).numpy()

    def average_loss(self, loss: float) -> float:
        return float(hvd.allreduce(tf.constant(loss, tf.float64), op=hvd.Average))

    def max_over_ranks(self, value: float) -> float:
        return float(hvd.allreduce(tf.constant(value, tf.float64), op=hvd.Max))

    def versions(self) -> dict[str, str]:
        return {"horovod": horovod.__version__, **super().versions()}

    def settings(self) -> dict[str, str]:
        return super().settings() | {"exchange": describe_exchange(hvd, self.spec)}

    def close(self) -> None:
        hvd.shutdown()
