"""Batch normalisation of the MXNet Gluon family."""

from functools import cache

import mxnet as mx
from mxnet.gluon import nn

from howmanygpus.measure.frameworks.gluon.layers.context import LayerContext


@cache
def by_batch(block_class: type) -> type:
    """Return a subclass that evaluates by the statistics of its batch on the context.

    A hybridised network is the same for training and evaluation, so that it cannot have such a block.
    """

    class ByBatch(block_class):
        def hybrid_forward(self, F, x, gamma, beta, running_mean, running_var):
            if F is not mx.nd:
                raise ValueError("BatchNorm by the statistics of the batch cannot be hybridised; choose tier: stock")
            if mx.autograd.is_training():
                return super().hybrid_forward(F, x, gamma, beta, running_mean, running_var)
            mean, variance = mx.nd.moments(x, axes=(0, 2, 3))
            epsilon = self._kwargs["eps"]
            return mx.nd.BatchNorm(
                x, gamma, beta, mean, variance, eps=epsilon, fix_gamma=False, use_global_stats=True, axis=1
            )

    return ByBatch


def batchnorm(context: LayerContext, channels: int, *, epsilon: float, momentum: float) -> nn.HybridBlock:
    """momentum: weight of the old running statistic."""
    options = {"in_channels": channels, "epsilon": epsilon, "momentum": momentum}
    block_class = nn.BatchNorm
    if context.batchnorm == "synchronized" and context.num_devices > 1:
        block_class, options["num_devices"] = mx.gluon.contrib.nn.SyncBatchNorm, context.num_devices
    return (by_batch(block_class) if context.eval_batchnorm == "batch" else block_class)(**options)
