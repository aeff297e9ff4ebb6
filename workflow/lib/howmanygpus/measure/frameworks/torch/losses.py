"""The loss of a step, from logits and the targets of measure.loop.targets."""

import torch
from torch import nn
from torch.nn import functional as F

from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.spec import RunSpec


class SigmoidLoss(nn.Module):
    """Mean over the images of the weighted sigmoid cross-entropy of their labels."""

    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        present = (targets > 0).to(logits.dtype)
        return F.binary_cross_entropy_with_logits(logits, present, targets.abs(), reduction="sum") / len(targets)


def build_loss(spec: RunSpec, data: PreparedData) -> nn.Module:
    """Return a function of logits and targets, whose value is the mean over the images."""
    if data.multi_label:
        return SigmoidLoss()
    return nn.CrossEntropyLoss(reduction="mean", label_smoothing=spec.label_smoothing)
