"""Optimizers of the PyTorch family, and which of PyTorch's implementations their steps use."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from howmanygpus.measure.spec import RunSpec

RULES: dict[str, Any] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def build_optimizer(parameters, spec: RunSpec) -> torch.optim.Optimizer:
    """Return the optimizer. parameters: parameters, or groups of them with weight decays of their own.

    In the `stock` tier PyTorch chooses the implementation, as it does for users who name none.
    """
    given = spec.optimizer
    options: dict[str, Any] = {"lr": given.learning_rate, "weight_decay": given.weight_decay}
    if spec.tier == "best":
        options["fused"] = True
    if given.name == "sgd":
        options["momentum"] = given.momentum
    else:
        options |= {"betas": (given.beta1, given.beta2), "eps": given.epsilon}
    return RULES[given.name](parameters, **options)


class OperatorNames(TorchDispatchMode):
    """Collects the names of all operators that PyTorch calls in a block."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(str(func))
        return func(*args, **(kwargs or {}))


def detect_implementation(spec: RunSpec, device: torch.device) -> str:
    """Return `fused`, `foreach` or `for-loop`, from the operators of one step on a parameter of its own."""
    parameter = torch.nn.Parameter(torch.zeros(1, device=device))
    parameter.grad = torch.zeros_like(parameter)
    optimizer = build_optimizer([parameter], spec)
    with OperatorNames() as called:
        optimizer.step()
    for name in ("fused", "foreach"):
        if any(f"aten._{name}_" in operator for operator in called.names):
            return name
    return "for-loop"
