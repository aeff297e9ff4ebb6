"""Horovod with Keras with one fault, named by PLANTED_FAULT, for tests of the parity gate."""

import os

import horovod.tensorflow as hvd

from howmanygpus.measure.frameworks.keras import fit_horovod as horovod_keras


def summing(optimizer_class, **_):
    class Summing(optimizer_class):
        def apply(self, grads, trainable_variables=None):
            super().apply([hvd.allreduce(gradient, op=hvd.Sum) for gradient in grads], trainable_variables)

    return Summing


DISTRIBUTED = horovod_keras.distributed
OPTIMIZERS = {
    "none": DISTRIBUTED,
    "exchanged_in_float16": lambda optimizer_class, **_: DISTRIBUTED(optimizer_class, hvd.Compression.fp16),
    "fp16_not_compressed": lambda optimizer_class, **_: DISTRIBUTED(optimizer_class, hvd.Compression.none),
    "gradients_not_averaged": lambda optimizer_class, **_: optimizer_class,
    "gradients_summed": summing,
}


class Faulty(horovod_keras.HorovodKeras):
    def __init__(self, *arguments):
        horovod_keras.distributed = OPTIMIZERS[os.environ["PLANTED_FAULT"]]
        super().__init__(*arguments)


BACKEND = Faulty
