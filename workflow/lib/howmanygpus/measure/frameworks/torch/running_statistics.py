"""Running statistics of batch normalisation in the PyTorch family: means and biased variances."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase

from howmanygpus.measure.spec import RunSpec


class BiasedVariance(nn.Module):
    """Mixin for a BatchNorm whose running variance is that of the batch, as in Keras, flax and MXNet.

    PyTorch accumulates n / (n - 1) times the variance of the batch, where n is the number of values per channel. The
    buffer keeps PyTorch's form, so that training costs what it costs every user; code that reads it divides.
    """

    inflation = 1.0
    """n / (n - 1)"""
    evaluates_by_batch = False
    """Whether evaluation normalises by the statistics of its batch instead of the running ones."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            return super().forward(x)
        mean, variance = self.running_mean, self.running_var / self.inflation
        if self.evaluates_by_batch:
            variance, mean = torch.var_mean(x.float(), dim=(0, 2, 3), correction=0)
        return F.batch_norm(x, mean, variance, self.weight, self.bias, False, 0.0, self.eps)


def set_inflation(model: nn.Module, spec: RunSpec, image_shape: tuple[int, int, int]) -> None:
    """Tell every BatchNorm how many values per channel one of its training batches has."""
    replicas = spec.num_gpus if spec.batchnorm == "local" else 1
    batch_size = spec.global_batch_size // replicas // spec.accumulate

    def set_from_shape(module, inputs):
        values = batch_size * inputs[0].shape[2] * inputs[0].shape[3]
        module.inflation = values / max(values - 1, 1)

    hooks = [
        module.register_forward_pre_hook(set_from_shape)
        for module in model.modules()
        if isinstance(module, BiasedVariance)
    ]
    height, width, channels = image_shape
    with torch.no_grad():
        model.eval()(torch.zeros(1, channels, height, width))
    model.train()
    for hook in hooks:
        hook.remove()


def variance_inflations(module: nn.Module) -> dict[str, float]:
    """Return the factor by which PyTorch's buffer exceeds each running variance, by the variance's canonical name."""
    return {
        f"{name}.variance": layer.inflation
        for name, layer in module.named_modules()
        if isinstance(layer, BiasedVariance)
    }


def join(statistics: list[torch.Tensor]) -> torch.Tensor:
    """Return all statistics as one vector, in float64, so that a mean of equal values is the same value."""
    return torch.cat([each.reshape(-1).double() for each in statistics])


def write(statistics: list[torch.Tensor], joined: torch.Tensor) -> None:
    """Write what join returned, or its mean over devices."""
    for statistic, part in zip(statistics, joined.split([each.numel() for each in statistics]), strict=True):
        statistic.copy_(part.view_as(statistic))


def running_statistics(module: nn.Module) -> list[torch.Tensor]:
    """Return the running means and variances of every BatchNorm, also in users' models."""
    layers = [layer for layer in module.modules() if isinstance(layer, _NormBase) and layer.running_mean is not None]
    return [statistic for layer in layers for statistic in (layer.running_mean, layer.running_var)]
