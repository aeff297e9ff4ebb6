"""Horovod with TensorFlow with one fault, named by PLANTED_FAULT, for tests of the parity gate."""

import functools
import os

import horovod.tensorflow as hvd

from howmanygpus.measure.frameworks.keras.horovod import HorovodTensorflow

TAPE = hvd.DistributedGradientTape
TAPES = {
    "none": TAPE,
    "exchanged_in_float16": lambda tape, **_: TAPE(tape, compression=hvd.Compression.fp16),
    "fp16_not_compressed": lambda tape, **_: TAPE(tape, compression=hvd.Compression.none),
    "gradients_not_averaged": lambda tape, **_: tape,
    "gradients_summed": functools.partial(hvd.DistributedGradientTape, op=hvd.Sum),
}


class Faulty(HorovodTensorflow):
    def __init__(self, *arguments):
        hvd.DistributedGradientTape = TAPES[os.environ["PLANTED_FAULT"]]
        super().__init__(*arguments)


BACKEND = Faulty
