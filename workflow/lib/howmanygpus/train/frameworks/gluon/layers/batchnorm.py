"""Batch normalisation of the MXNet Gluon family."""

import mxnet as mx
from mxnet.gluon import nn

from howmanygpus.train.frameworks.gluon.layers.context import LayerContext


def batchnorm(context: LayerContext, channels: int, *, epsilon: float, momentum: float) -> nn.HybridBlock:
    """momentum: weight of the old running statistic."""
    options = {"in_channels": channels, "epsilon": epsilon, "momentum": momentum}
    if context.batchnorm == "synchronized" and context.num_devices > 1:
        return mx.gluon.contrib.nn.SyncBatchNorm(num_devices=context.num_devices, **options)
    return nn.BatchNorm(**options)
