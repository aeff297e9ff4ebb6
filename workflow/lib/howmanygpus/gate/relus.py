"""
Halve the gradients of ReLUs in the reference where rounding decides, to learn what float32 rounding may change.

The distance from zero within which rounding decides is measured for each ReLU of each forward pass in training, because
rounding grows with depth. Only the family's layer `relu` can be changed, so a model that calls another ReLU of PyTorch
is refused.
"""

import copy
from typing import Protocol

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

MIN_DISTANCE = 4e-6
"""Smallest value of that distance, in standard deviations of the ReLU's input."""
DISTANCE_FACTOR = 4.0
"""Ratio of the distance to the root mean square error of the ReLU's inputs."""
TORCH_RELUS = {
    torch.relu: "torch.relu",
    torch.relu_: "torch.relu_",
    torch.nn.functional.relu: "torch.nn.functional.relu or nn.ReLU",
    torch.Tensor.relu: "Tensor.relu",
    torch.Tensor.relu_: "Tensor.relu_",
}
"""Every form of ReLU that PyTorch has, by the function that it calls."""


class RefusedReluError(Exception):
    """The model calls one of PyTorch's own ReLUs."""


class RefuseTorchRelus(TorchFunctionMode):
    """While the context is open, each of PyTorch's own ReLUs raises RefusedReluError."""

    def __init__(self, model: str):
        super().__init__()
        self.model = model

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in TORCH_RELUS:
            raise RefusedReluError(
                f"model {self.model} calls {TORCH_RELUS[function]}, for whose rounding the parity gate cannot allow; "
                "in its torch.py use relu of howmanygpus.measure.frameworks.torch.layers.relu"
            )
        return function(*args, **(kwargs or {}))


class Watcher(Protocol):
    """Sees the ReLUs of the network's forward passes in training."""

    def begin(self, network: nn.Module, *inputs: torch.Tensor) -> None:
        """Take note of a forward pass that is about to begin."""

    def open(self, x: torch.Tensor, is_open: torch.Tensor) -> torch.Tensor:
        """Return the factors on the gradients of a ReLU's inputs, given one or zero for each."""


class Measuring:
    """Measures how near to zero rounding decides, with a float32 copy of the network that gets the same images.

    num_near: number of inputs within these distances. seen: for each ReLU since the list was last cleared, its inputs
    and the distance in standard deviations of the inputs.
    """

    def __init__(self) -> None:
        self.num_near = 0
        self.seen: list[tuple[torch.Tensor, float]] = []
        self._rounded: list[torch.Tensor] = []
        self._is_rehearsal = False

    def begin(self, network: nn.Module, *inputs: torch.Tensor) -> None:
        self._rounded.clear()
        self._is_rehearsal = True
        with torch.no_grad():
            copy.deepcopy(network).float()(*(x.float() if x.is_floating_point() else x for x in inputs))
        self._is_rehearsal = False

    def open(self, x: torch.Tensor, is_open: torch.Tensor) -> torch.Tensor:
        if self._is_rehearsal:
            self._rounded.append(x)
            return is_open
        distance = compute_distance(x, self._rounded.pop(0).to(x.dtype))
        self.seen.append((x.detach(), distance))
        self.num_near += int((x.abs() / x.std(correction=0) < distance).sum())
        return is_open


class Halving:
    """Halves the gradients of inputs that rounding could put on either side of zero.

    A correct framework passes each of these gradients whole or not at all, so it differs from this task by half. In
    later steps that difference moves further inputs to the other side of zero, so the distance also covers the
    difference between the exact task and this one. exact: sees each step before this object does.
    """

    def __init__(self, exact: Measuring):
        self._exact = exact

    def begin(self, network: nn.Module, *inputs: torch.Tensor) -> None:
        """Do nothing: the exact task has seen the pass."""

    def open(self, x: torch.Tensor, is_open: torch.Tensor) -> torch.Tensor:
        other, distance = self._exact.seen.pop(0)
        distance = max(distance, compute_distance(x, other))
        return torch.where(x.abs() / x.std(correction=0) < distance, 0.5, is_open)


def compute_distance(x: torch.Tensor, other: torch.Tensor) -> float:
    """Return the distance from zero within which a difference as large as that of x and `other` decides.

    It is in standard deviations of x.
    """
    off = (other - x).square().mean().sqrt() / x.std(correction=0)
    return max(MIN_DISTANCE, DISTANCE_FACTOR * off.item())


class GatedRelu(torch.autograd.Function):
    """ReLU whose gradients a watcher can change while the network trains. Evaluation has no watcher."""

    watcher: Watcher | None = None

    @staticmethod
    def forward(ctx, x):
        is_open = (x > 0).to(x.dtype)
        if GatedRelu.watcher is not None:
            is_open = GatedRelu.watcher.open(x, is_open)
        ctx.save_for_backward(is_open)
        return x.clamp(min=0.0)

    @staticmethod
    def backward(ctx, gradient):
        (is_open,) = ctx.saved_tensors
        return gradient * is_open
