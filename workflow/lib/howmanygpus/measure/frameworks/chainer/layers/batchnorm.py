"""Batch normalisation of the Chainer family."""

from functools import cache

import chainer
import chainer.functions as F
import chainer.links as L

from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext


@cache
def biased(link_class: type) -> type:
    """A subclass whose running variance is that of the batch, as in Keras, flax and MXNet.

    Chainer accumulates n / (n - 1) times the variance of the batch, where n is the number of values per channel. The
    array keeps Chainer's form, so that training costs what it costs every user; code that reads it divides by
    `inflation`. With `evaluates_by_batch`, evaluation normalises by the statistics of its batch instead of the running
    ones.
    """

    # MultiNodeBatchNormalization has no forward, only a __call__, which calls no link hooks.
    compute = getattr(link_class, "forward", link_class.__call__)

    class Biased(link_class):
        inflation = 1.0
        evaluates_by_batch = False
        __call__ = chainer.Link.__call__

        def forward(self, x: chainer.Variable) -> chainer.Variable:
            if chainer.config.train:
                return compute(self, x)
            if self.evaluates_by_batch:
                return F.batch_normalization(x, self.gamma, self.beta, eps=self.eps)
            variance = self.avg_var / self.inflation
            return F.fixed_batch_normalization(x, self.gamma, self.beta, self.avg_mean, variance, eps=self.eps)

    return Biased


def batchnorm(context: LayerContext, channels: int, *, epsilon: float, momentum: float) -> chainer.Link:
    """momentum: weight of the old running statistic."""
    options = {"decay": momentum, "eps": epsilon}
    if context.batchnorm == "synchronized" and context.communicator.size > 1:
        from chainermn.links import MultiNodeBatchNormalization

        link = biased(MultiNodeBatchNormalization)(channels, comm=context.communicator, **options)
    else:
        link = biased(L.BatchNormalization)(channels, **options)
    link.evaluates_by_batch = context.eval_batchnorm == "batch"
    return link
