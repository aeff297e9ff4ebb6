"""
A custom TensorFlow training loop under MultiWorkerMirroredStrategy: one process per device, named by TF_CONFIG.

BatchNorm is local to each replica; evaluation uses the mean of the replicas' running statistics.
"""

import functools
import json
import os
from typing import TypeAlias

import numpy as np
import tensorflow as tf

from howmanygpus.measure.frameworks.keras.mirrored import TensorflowMirrored
from howmanygpus.measure.frameworks.keras.replicas import set_memory_growth
from howmanygpus.measure.host.processes import bind_to_device_cores
from howmanygpus.measure.spec import RunSpec

Collectives: TypeAlias = tf.distribute.experimental.CommunicationImplementation


@functools.cache
def join_workers(implementation: Collectives) -> tf.distribute.Strategy:
    """Return the strategy of this process. TensorFlow can make only one; the gate does several tasks with it."""
    options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


class TensorflowMultiworker(TensorflowMirrored):
    def build_strategy(self, spec: RunSpec) -> tf.distribute.Strategy:
        self.rank, self.num_processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        local_rank = int(os.environ["LOCAL_RANK"])
        bind_to_device_cores(local_rank, spec.cores_per_device)
        workers = os.environ["HOWMANYGPUS_ADDRESSES"].split(",")
        task = {"type": "worker", "index": self.rank}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
        if spec.device_kind == "cuda":
            gpu = tf.config.list_physical_devices("GPU")[local_rank]
            tf.config.set_visible_devices(gpu, "GPU")
            set_memory_growth(spec, [gpu])
            implementation = Collectives.NCCL
        else:
            tf.config.threading.set_intra_op_parallelism_threads(spec.cores_per_device)
            tf.config.threading.set_inter_op_parallelism_threads(2)
            implementation = Collectives.RING
        strategy = join_workers(implementation)
        self._sum = tf.function(lambda value: strategy.run(self._sum_in_replica, args=(value,)))
        return strategy

    @staticmethod
    def _sum_in_replica(value):
        # Copy to the replica's own device: the operand's device decides which collective is used.
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(value))

    def sum_over_ranks(self, value) -> np.ndarray:
        """Return the sum of an array that has the same shape on every process."""
        return self.strategy.experimental_local_results(self._sum(tf.constant(value)))[0].numpy()

    def max_over_ranks(self, value: float) -> float:
        """Return the maximum of an array with one element per process: TensorFlow only has sums and means."""
        places = np.zeros(self.num_processes, np.float64)
        places[self.rank] = value
        return float(self.sum_over_ranks(places).max())

    def wait_until_idle(self) -> None:
        """Synchronise only this process's device; sync_devices would also ask other workers, which cannot answer."""
        with tf.device("/gpu:0" if self.spec.device_kind == "cuda" else "/cpu:0"):
            tf.raw_ops.SyncDevice()

    def _step_on_all(self, images, labels):
        """Return this process's part of the loss; the whole loss would need another collective in every step."""
        losses = self.strategy.run(self._step_on_replica, (images, labels))
        return self.strategy.experimental_local_results(losses)[0]

    def read_window_loss(self, num_steps: int) -> float:
        total = np.sum(tf.stack(self._losses).numpy(), dtype=np.float64)
        self._losses.clear()
        return float(total) * self.num_processes / num_steps

    def average_loss(self, loss: float) -> float:
        return float(self.sum_over_ranks(np.float64(loss))) / self.num_processes

    def prepare_evaluation(self) -> None:
        """Give every process the mean of all running statistics, or the first process's."""
        of_first = self.spec.eval_batchnorm == "first"
        for statistic in self.list_statistics():
            # In float64, so that the mean of equal values is the same value.
            own = statistic.numpy().astype(np.float64)
            total = self.sum_over_ranks(np.zeros_like(own) if of_first and self.rank else own)
            statistic.assign((total if of_first else total / self.num_processes).astype(statistic.dtype))

    def _describe_exchange(self) -> str:
        how = self.strategy.extended._communication_options.implementation.value
        return f"MultiWorkerMirroredStrategy, {how}" if self.spec.exchanges else super()._describe_exchange()

    def close(self) -> None:
        """Wait for the others: a worker that leaves before they have finished breaks their last collective."""
        self.max_over_ranks(0.0)


BACKEND = TensorflowMultiworker
