"""Horovod with Keras with one fault, named by PLANTED_FAULT, for tests of the parity gate."""

import os

import horovod.tensorflow as hvd

from trainbench.backends import horovod_keras

FAULT = os.environ.get("PLANTED_FAULT", "")


def summing(optimizer_class, _):
    class Summing(optimizer_class):
        def apply(self, grads, trainable_variables=None):
            super().apply([hvd.allreduce(gradient, op=hvd.Sum) for gradient in grads], trainable_variables)

    return Summing


if FAULT == "gradients_not_averaged":
    horovod_keras.distributed = lambda optimizer_class, _: optimizer_class
if FAULT == "gradients_summed":
    horovod_keras.distributed = summing

BACKEND = horovod_keras.HorovodKeras
