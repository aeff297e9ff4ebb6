"""Formats of numbers in the PyTorch family."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from howmanygpus.measure.frameworks.number_formats import NumberFormats
from howmanygpus.measure.frameworks.torch.family import TorchBackend

PRODUCTS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


def name_dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """Return the values; float32 holds all of bfloat16 and float16."""
    tensor = tensor.detach().cpu()
    return (tensor if tensor.dtype == torch.float64 else tensor.float()).numpy()


def begin(backend: TorchBackend, batch: tuple[np.ndarray, np.ndarray]) -> Callable[[], NumberFormats]:
    """Begin to observe the next step, and return the function that ends it. See measure.frameworks.number_formats."""
    return lambda: read(backend, batch)


def read(backend: TorchBackend, batch: tuple[np.ndarray, np.ndarray]) -> NumberFormats:
    numbers, names = NumberFormats(), {}
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
    numbers.activations = read_activations(backend, batch[0])
    return numbers


def read_activations(backend: TorchBackend, images: np.ndarray) -> set[str]:
    """Return the formats of the outputs of convolutions and linear layers in a forward pass."""
    found: set[str] = set()
    network = backend.own_network
    hooks = [
        module.register_forward_hook(lambda _, __, output: found.add(name_dtype(output)))
        for module in backend.model.modules()
        if isinstance(module, PRODUCTS)
    ]
    was_training = network.training
    # Call the method itself: the `best` tier compiles the call, which would not run the hooks.
    with torch.no_grad():
        network.eval()
        network.forward(torch.from_numpy(images[:2]).to(backend.device))
    network.train(was_training)
    for hook in hooks:
        hook.remove()
    return found
