"""Batch normalisation of the PyTorch family."""

from torch import nn

from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.running_statistics import BiasedVariance


class LocalBatchNorm(BiasedVariance, nn.BatchNorm2d):
    pass


class SynchronizedBatchNorm(BiasedVariance, nn.SyncBatchNorm):
    pass


CLASSES = {"local": LocalBatchNorm, "synchronized": SynchronizedBatchNorm}


def batchnorm(context: LayerContext, channels: int, *, epsilon: float, momentum: float) -> nn.Module:
    """momentum: weight of the old running statistic; PyTorch's is one minus this."""
    layer = CLASSES[context.batchnorm](channels, eps=epsilon, momentum=1.0 - momentum)
    layer.evaluates_by_batch = context.eval_batchnorm == "batch"
    return layer
