"""
Horovod with Keras `Model.fit`: one process per device, one fit for the whole run; NCCL on GPUs, gloo on CPUs.

BatchNorm is local to each process; evaluation uses the mean of the processes' running statistics. The constructor has
what a user of Horovod adds to a Keras program: init, the choice of a device, the optimizer, the first process's
weights.
"""

import functools

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from howmanygpus.measure.frameworks.horovod import join
from howmanygpus.measure.frameworks.keras.family import build_optimizer
from howmanygpus.measure.frameworks.keras.fit import FitBackend, make_untuned_options
from howmanygpus.measure.frameworks.keras.horovod_backend import COMPRESSIONS, HorovodKerasBackend, select_device
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.spec import RunSpec


def distributed(optimizer_class: type, compression) -> type:
    """Return a subclass that averages gradients over all processes before it applies them.

    Horovod's own DistributedOptimizer overrides a method that only Keras 2 calls; under Keras 3 it silently averages
    nothing.
    """

    class Distributed(optimizer_class):
        def apply(self, grads, trainable_variables=None):
            averaged = [hvd.allreduce(gradient, op=hvd.Average, compression=compression) for gradient in grads]
            super().apply(averaged, trainable_variables)

    return Distributed


class HorovodKeras(HorovodKerasBackend, FitBackend):
    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        join(spec)
        hvd.init()
        self.rank, self.num_processes = hvd.rank(), hvd.size()
        select_device(spec, hvd.local_rank())
        self.set_up(spec, data, weights)
        compression = COMPRESSIONS[spec.gradient_compression]
        average = functools.partial(distributed, compression=compression)
        options = {"adapt": average} if spec.exchanges else {}
        optimizer = build_optimizer(spec, learning_rates, self.model, **options)
        self.start_from_first(optimizer)
        # Keras compiles by XLA on one GPU, which cannot compile a step that contains Horovod's operation.
        self.compile(optimizer, jit_compile=False)

    def prefetch_to_devices(self, dataset: tf.data.Dataset, prefetch: int) -> tf.data.Dataset:
        """Prefetch to the device: the default strategy that fit runs under does not."""
        if not prefetch:
            return dataset
        device = "/gpu:0" if self.spec.device_kind == "cuda" else "/cpu:0"
        # TensorFlow does not pass the options on to the device's data set.
        return dataset.apply(tf.data.experimental.prefetch_to_device(device, prefetch)).with_options(
            make_untuned_options()
        )


BACKEND = HorovodKeras
