"""A network with arrays that stay at initial values that fit into bfloat16, for tests of the parity gate."""

import torch
from torch import nn


class StillNet(nn.Module):
    """The gate is closed at the start, so that its branch gets no gradients at first. Scales begin with 1."""

    def __init__(self, channels: int, num_classes: int, width: int):
        super().__init__()
        self.first = nn.Linear(channels, width)
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Parameter(torch.zeros(()))
        self.branch_scale = nn.Parameter(torch.tensor([1.0, -1.0, 0.5, 2.0] * (width // 4)))
        self.frozen = nn.Parameter(torch.ones(width), requires_grad=False)
        self.last = nn.Linear(width, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x.mean(dim=(2, 3)))) * self.frozen
        # The factor keeps the gate at zero: its gradient is zero as well.
        return self.last(self.norm(x) + self.gate * (0.0 * x * self.branch_scale))


def build(image_shape: tuple[int, int, int], num_classes: int, width: int = 16, depth: int = 2) -> nn.Module:
    return StillNet(image_shape[2], num_classes, width)
