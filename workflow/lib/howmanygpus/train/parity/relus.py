"""
Halve the gradients of ReLUs in the reference where rounding decides, to learn what float32 rounding may change.

Only the family's layer `relu` can be changed, so a model that calls another ReLU of PyTorch is refused.
"""

import torch
from torch.overrides import TorchFunctionMode

NEAR_ZERO = 4e-6
"""Distance from zero within which rounding may decide, in standard deviations of the ReLU's input.

Activations in float32 are off by up to 1e-6 standard deviations.
"""
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
                "in its torch.py use relu of howmanygpus.train.frameworks.torch.layers.relu"
            )
        return function(*args, **(kwargs or {}))


class GatedRelu(torch.autograd.Function):
    """ReLU whose backward pass halves the gradients of inputs that are nearer to zero than `near` standard deviations.

    A correct framework passes each of these gradients whole or not at all, so that it is off by the other half.
    While counts_near is true, num_near counts the inputs within NEAR_ZERO.
    """

    near, num_near, counts_near = 0.0, 0, False

    @staticmethod
    def forward(ctx, x):
        is_open = (x > 0).to(x.dtype)
        if GatedRelu.near or GatedRelu.counts_near:
            distance = x.abs() / x.std(correction=0)
            is_open = torch.where(distance < GatedRelu.near, 0.5, is_open)
            GatedRelu.num_near += int((distance < NEAR_ZERO).sum()) if GatedRelu.counts_near else 0
        ctx.save_for_backward(is_open)
        return x.clamp(min=0.0)

    @staticmethod
    def backward(ctx, gradient):
        (is_open,) = ctx.saved_tensors
        return gradient * is_open
