"""Formats of numbers in the PyTorch family."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from howmanygpus.measure.frameworks.number_formats import NumberFormats, count_factors
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

    def add_exchanged(self, tensors: Any) -> None:
        for tensor in list_tensors(tensors):
            self.numbers.exchange(name_dtype(tensor), tensor.numel() * tensor.element_size())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name, node = str(func), torch._C._current_autograd_node()
        is_exchanged = type(node).__name__ == "AccumulateGrad"
        if name.startswith(COLLECTIVES) and is_exchanged:
            self.add_exchanged(args[0])
        elif name.startswith(PRODUCT_OPERATIONS) and not is_exchanged:
            found = self.numbers.activations if node is None else self.numbers.backward
            # Further arguments are no operands: attention keeps the logarithm of its sums in float32.
            operands = list_tensors(args[:MAX_OPERANDS])
            found |= {name_dtype(tensor) for tensor in operands if tensor.is_floating_point()}
        return func(*args, **(kwargs or {}))


def list_tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


@contextmanager
def watch_callbacks(formats: StepFormats) -> Iterator[None]:
    """Record all-reduces that Python begins where StepFormats is not active.

    These are in the threads of a process group, which execute the callbacks of a communication hook.
    """
    # Unlike the attribute of the class, it still binds to a group when it is put back.
    usual = vars(dist.ProcessGroup)["allreduce"]

    def record_and_call(group: dist.ProcessGroup, tensors: Any, *arguments: Any, **options: Any) -> Any:
        if not torch._C._len_torch_dispatch_stack():
            formats.add_exchanged(tensors)
        return usual(group, tensors, *arguments, **options)

    dist.ProcessGroup.allreduce = record_and_call
    try:
        yield
    finally:
        dist.ProcessGroup.allreduce = usual


@contextmanager
def watch_memory(backend: TorchBackend, numbers: NumberFormats) -> Iterator[None]:
    """Find out whether the gradients that PowerSGD applies have a part of earlier steps.

    PowerSGD applies P P^T M, where M is the sum of the step's own mean gradient G and of what earlier steps have left
    out. The columns of P span those of the applied matrix. Without memory the result is P P^T G.
    """
    own: dict[torch.Tensor, torch.Tensor] = {}
    applied: dict[torch.Tensor, torch.Tensor] = {}

    def add_to(parameter: torch.Tensor) -> Callable[[torch.Tensor], None]:
        def add(gradient: torch.Tensor) -> None:
            own[parameter] = own[parameter] + gradient if parameter in own else gradient.clone()

        return add

    def take(*_: Any) -> None:
        applied.update({parameter: parameter.grad.clone() for parameter in own if parameter.grad is not None})

    hooks = [backend.optimizer.register_step_pre_hook(take)]
    for parameter in backend.model.parameters():
        shape = len(parameter), parameter.numel() // len(parameter)
        if parameter.requires_grad and count_factors(*shape, backend.spec.powersgd_rank):
            hooks.append(parameter.register_hook(add_to(parameter)))
    yield
    for hook in hooks:
        hook.remove()
    remembered, left_out = 0.0, 0.0
    for parameter, total in own.items():
        mean = backend.sum_over_ranks(total) / backend.num_processes
        found, mean = (each.reshape(len(each), -1).double() for each in (applied[parameter], mean))
        # Random combinations of its columns span those of a matrix of this rank.
        generator = torch.Generator(backend.device).manual_seed(0)
        factors = {"dtype": found.dtype, "device": backend.device, "generator": generator}
        basis = torch.linalg.qr(found @ torch.randn(found.shape[1], backend.spec.powersgd_rank, **factors)).Q
        projection = basis @ (basis.T @ mean)
        remembered += (found - projection).square().sum().item()
        left_out += (mean - projection).square().sum().item()
    if math.isfinite(remembered) and left_out > 0:
        numbers.remembered = math.sqrt(remembered / left_out)


def begin(backend: TorchBackend, batch: tuple[np.ndarray, np.ndarray]) -> Callable[[], NumberFormats]:
    """Begin to observe the next step, and return the function that ends it. See measure.frameworks.number_formats."""
    numbers, stack = NumberFormats(), ExitStack()
    formats = StepFormats(numbers)
    for module in backend.model.modules():
        if isinstance(module, PRODUCTS):
            hook = module.register_forward_hook(lambda _, __, output: numbers.activations.add(name_dtype(output)))
            stack.callback(hook.remove)
    if backend.spec.gradient_compression == "powersgd":
        stack.enter_context(watch_memory(backend, numbers))
    stack.enter_context(watch_callbacks(formats))
    stack.enter_context(backend.watch_exchange(numbers))
    stack.enter_context(formats)

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
