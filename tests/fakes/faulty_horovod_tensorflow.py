"""Horovod with TensorFlow with one fault, named by PLANTED_FAULT, for tests of the parity gate."""

import functools
import os

import horovod.tensorflow as hvd

from trainbench.backends.horovod_tensorflow import HorovodTensorflow

FAULT = os.environ.get("PLANTED_FAULT", "")
if FAULT == "gradients_not_averaged":
    hvd.DistributedGradientTape = lambda tape, **_: tape
if FAULT == "gradients_summed":
    hvd.DistributedGradientTape = functools.partial(hvd.DistributedGradientTape, op=hvd.Sum)

BACKEND = HorovodTensorflow
