"""
Squared norms of gradients of small batches and of the big batch that they make up, for the gradient noise scale.

The network without the wrapper computes them, and autograd returns them instead of adding them to the parameters'
gradients, so that no device exchanges anything by itself. Running statistics and random numbers are restored.
"""

from collections.abc import Callable, Iterable

import torch
from torch import nn


def measure_norms(
    network: nn.Module,
    loss_function: nn.Module,
    parts: Iterable[tuple[torch.Tensor, torch.Tensor]],
    sum_over_ranks: Callable[[torch.Tensor], torch.Tensor],
    loss_scale: float,
) -> tuple[float, float]:
    """Return the mean squared norm of the parts' gradients, and the squared norm of their mean.

    parts: (images, targets) of this process, of equal size; all processes have the same number of parts.
    sum_over_ranks: adds a tensor over all processes. loss_scale: factor of the losses while gradients are computed,
    because small gradients are zero in fp16; 1 in any other precision. If one overflows, the norms are not finite.
    """
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    statistics = [(buffer, buffer.clone()) for buffer in network.buffers()]
    total, norms = torch.zeros(sum(each.numel() for each in parameters), device=parameters[0].device), []
    devices = [total.device] if total.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        for images, targets in parts:
            loss = loss_function(network(images), targets) * loss_scale
            gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
            gradient = torch.cat([each.reshape(-1).to(total.dtype) for each in gradients]) / loss_scale
            norms.append(gradient.double().square().sum())
            total += gradient
    with torch.no_grad():
        for buffer, before in statistics:
            buffer.copy_(before)
    counted = torch.stack(
        [torch.stack(norms).sum(), torch.tensor(len(norms), device=total.device, dtype=torch.float64)]
    )
    sum_of_norms, count = sum_over_ranks(counted).tolist()
    mean = sum_over_ranks(total).double() / count
    return sum_of_norms / count, mean.square().sum().item()
