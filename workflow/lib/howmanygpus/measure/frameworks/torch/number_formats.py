"""Formats of numbers in the PyTorch family."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from howmanygpus.measure.frameworks.number_formats import NumberFormats
from howmanygpus.measure.frameworks.torch.family import TorchBackend

PRODUCTS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
PRODUCT_OPERATIONS = tuple(
    f"aten.{name}" for name in ("convolution", "mm", "addmm", "bmm", "baddbmm", "linear", "_scaled_dot_product")
)
MAX_OPERANDS = 3
"""First arguments of these operations that may be operands, of forward and backward passes."""
COLLECTIVES = ("c10d.allreduce", "c10d.reduce_scatter", "c10d.reduce", "c10d.allgather", "c10d._allgather")


def name_dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """Return the values; float32 holds all of bfloat16 and float16."""
    tensor = tensor.detach().cpu()
    return (tensor if tensor.dtype == torch.float64 else tensor.float()).numpy()


class StepFormats(TorchDispatchMode):
    """Records the operands of products and of the gradients' collectives while it is active.

    The autograd engine's threads, in which DistributedDataParallel exchanges, inherit the mode of the thread that
    starts the backward pass. Threads that DataParallel starts for the forward pass on several GPUs do not; there, hooks
    of the layers record the formats.
    """

    def __init__(self, numbers: NumberFormats):
        super().__init__()
        self.numbers = numbers

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name, node = str(func), torch._C._current_autograd_node()
        is_exchanged = type(node).__name__ == "AccumulateGrad"
        if name.startswith(COLLECTIVES) and is_exchanged:
            for tensor in list_tensors(args[0]):
                self.numbers.exchange(name_dtype(tensor), tensor.numel() * tensor.element_size())
        elif name.startswith(PRODUCT_OPERATIONS) and not is_exchanged:
            found = self.numbers.activations if node is None else self.numbers.backward
            # Further arguments are no operands: attention keeps the logarithm of its sums in float32.
            operands = list_tensors(args[:MAX_OPERANDS])
            found |= {name_dtype(tensor) for tensor in operands if tensor.is_floating_point()}
        return func(*args, **(kwargs or {}))


def list_tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def begin(backend: TorchBackend, batch: tuple[np.ndarray, np.ndarray]) -> Callable[[], NumberFormats]:
    """Begin to observe the next step, and return the function that ends it. See measure.frameworks.number_formats."""
    numbers, stack = NumberFormats(), ExitStack()
    for module in backend.model.modules():
        if isinstance(module, PRODUCTS):
            hook = module.register_forward_hook(lambda _, __, output: numbers.activations.add(name_dtype(output)))
            stack.callback(hook.remove)
    stack.enter_context(backend.watch_exchange(numbers))
    stack.enter_context(StepFormats(numbers))

    def end() -> NumberFormats:
        stack.close()
        add_kept(numbers, backend)
        return numbers

    return end


def add_kept(numbers: NumberFormats, backend: TorchBackend) -> None:
    """Add the weights, running statistics and moments."""
    names = {}
    for name, parameter in backend.model.named_parameters():
        if parameter.requires_grad:
            names[parameter] = name
            numbers.add("weights", name, to_array(parameter), name_dtype(parameter))
    for name, buffer in backend.model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            numbers.add("statistics", name, to_array(buffer), name_dtype(buffer))
    for parameter, state in backend.optimizer.state.items():
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and value.shape == parameter.shape and parameter.ndim:
                numbers.add("moments", f"{names.get(parameter)}.{name}", to_array(value), name_dtype(value))
