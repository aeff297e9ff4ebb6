"""
Shift the thresholds of ReLUs in the reference, to learn what float32 rounding may change.

Only the family's layer `relu` can be shifted, so a model that calls another ReLU of PyTorch is refused.
"""

import torch
from torch.overrides import TorchFunctionMode

GATE_SHIFT = 4e-6
"""Shift of the threshold, in standard deviations of the ReLU's input; float32 activations are off by up to 1e-6."""
OWN_RELUS = {
    torch.relu: "torch.relu",
    torch.relu_: "torch.relu_",
    torch.nn.functional.relu: "torch.nn.functional.relu or nn.ReLU",
    torch.Tensor.relu: "Tensor.relu",
    torch.Tensor.relu_: "Tensor.relu_",
}
"""Every form of ReLU that PyTorch has, by the function that it calls."""


class RefusedReluError(Exception):
    """The model calls one of PyTorch's own ReLUs."""


class RefuseOwnRelus(TorchFunctionMode):
    """While the context is open, each of PyTorch's own ReLUs raises RefusedReluError."""

    def __init__(self, model: str):
        super().__init__()
        self.model = model

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in OWN_RELUS:
            raise RefusedReluError(
                f"model {self.model} calls {OWN_RELUS[function]}, for whose rounding the parity gate cannot allow; "
                f"in train/models/{self.model}/torch.py use relu of howmanygpus.train.frameworks.torch.layers.relu"
            )
        return function(*args, **(kwargs or {}))


class GatedRelu(torch.autograd.Function):
    """ReLU whose backward pass has its threshold at shift * (standard deviation of the input) instead of zero.

    While counts_near is true, num_near counts the inputs that are nearer to zero than
    GATE_SHIFT * (standard deviation).
    """

    shift, num_near, counts_near = 0.0, 0, False

    @staticmethod
    def forward(ctx, x):
        deviation = x.std(correction=0) if GatedRelu.shift or GatedRelu.counts_near else 0.0
        if GatedRelu.counts_near:
            GatedRelu.num_near += int((x.abs() < GATE_SHIFT * deviation).sum())
        ctx.save_for_backward(x > GatedRelu.shift * deviation)
        return x.clamp(min=0.0)

    @staticmethod
    def backward(ctx, gradient):
        (is_open,) = ctx.saved_tensors
        return gradient * is_open
