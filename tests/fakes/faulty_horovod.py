"""Horovod with PyTorch with one fault, named by PLANTED_FAULT, for tests of the parity gate."""

import functools
import os

import horovod.torch as hvd

from howmanygpus.measure.frameworks.torch.horovod import HorovodPytorch

OPTIMIZER = hvd.DistributedOptimizer


def compress(compression):
    return lambda optimizer, **options: OPTIMIZER(optimizer, **options | {"compression": compression})


OPTIMIZERS = {
    "none": OPTIMIZER,
    "exchanged_in_float16": compress(hvd.Compression.fp16),
    "fp16_not_compressed": compress(hvd.Compression.none),
    "gradients_not_averaged": lambda optimizer, **_: optimizer,
    "gradients_summed": functools.partial(hvd.DistributedOptimizer, op=hvd.Sum),
}


class Faulty(HorovodPytorch):
    def __init__(self, *arguments):
        hvd.DistributedOptimizer = OPTIMIZERS[os.environ["PLANTED_FAULT"]]
        super().__init__(*arguments)


BACKEND = Faulty
