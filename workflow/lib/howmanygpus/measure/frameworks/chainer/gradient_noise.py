"""
Squared norms of gradients of small batches and of the big batch that they make up, for the gradient noise scale.

Nothing is exchanged while the gradients are computed. Running statistics are restored, and each step of the training
clears the gradients before it computes its own.
"""

from collections.abc import Callable, Iterable
from typing import Any

import chainer
import numpy as np

Saved = list[tuple[chainer.Link, str, Any]]


def measure_norms(
    network: chainer.Chain,
    loss_function: Callable[..., chainer.Variable],
    parts: Iterable[tuple[Any, Any]],
    sum_over_ranks: Callable[[np.ndarray], np.ndarray],
) -> tuple[float, float]:
    """Return the mean squared norm of the parts' gradients, and the squared norm of their mean.

    parts: (images, targets) of this process, of equal size. sum_over_ranks: adds an array over all processes.
    """
    norms, saved = list[float](), save_state(network)
    total: Any = 0.0  # an array from the first part on
    for images, targets in parts:
        network.cleargrads()
        loss_function(network(images), targets).backward()
        gradient = join_gradients(network)
        norms.append(float((gradient.astype(np.float64) ** 2).sum()))
        total = total + gradient
    network.cleargrads()
    restore_state(saved)
    sum_of_norms, count = sum_over_ranks(np.array([sum(norms), len(norms)]))
    mean = sum_over_ranks(chainer.backends.cuda.to_cpu(total)).astype(np.float64) / count
    return float(sum_of_norms / count), float(np.square(mean).sum())


def join_gradients(network: chainer.Chain) -> Any:
    """Return all gradients as one vector, in the order of the parameters' names; zero if a parameter has none."""
    parameters = [parameter for _, parameter in sorted(network.namedparams())]
    xp = chainer.backend.get_array_module(parameters[0].array)
    gradients = [each.grad if each.grad is not None else xp.zeros_like(each.array) for each in parameters]
    return xp.concatenate([gradient.ravel() for gradient in gradients])


def save_state(network: chainer.Chain) -> Saved:
    """Return copies of what links keep besides parameters, such as running statistics."""
    links = [link for _, link in sorted(network.namedlinks())]
    kept = [(link, name, getattr(link, name)) for link in links for name in sorted(link._persistent)]
    return [(link, name, value.copy() if hasattr(value, "copy") else value) for link, name, value in kept]


def restore_state(saved: Saved) -> None:
    for link, name, value in saved:
        if hasattr(value, "copy"):
            getattr(link, name)[...] = value
        else:
            setattr(link, name, value)
