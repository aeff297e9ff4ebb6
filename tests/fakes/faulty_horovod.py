"""Horovod with PyTorch with one fault, named by PLANTED_FAULT, for tests of the parity gate."""

import functools
import os

import horovod.torch as hvd

from trainbench.backends.horovod_pytorch import HorovodPytorch

FAULT = os.environ.get("PLANTED_FAULT", "")
if FAULT == "gradients_not_averaged":
    hvd.DistributedOptimizer = lambda optimizer, **_: optimizer
if FAULT == "gradients_summed":
    hvd.DistributedOptimizer = functools.partial(hvd.DistributedOptimizer, op=hvd.Sum)

BACKEND = HorovodPytorch
