"""
Squared norms of gradients of small batches and of the big batch that they make up, for the gradient noise scale.

Each process computes its small batches one after the other on its first context. Running statistics are restored, and
each step of the training computes its gradients anew.
"""

from collections.abc import Callable, Iterable
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd


def measure_norms(
    network: mx.gluon.Block,
    parameters: list[mx.gluon.Parameter],
    loss_function: Callable[[mx.nd.NDArray, mx.nd.NDArray], mx.nd.NDArray],
    parts: Iterable[tuple[mx.nd.NDArray, mx.nd.NDArray]],
    sum_over_ranks: Callable[[np.ndarray], np.ndarray],
) -> tuple[float, float]:
    """Return the mean squared norm of the parts' gradients, and the squared norm of their mean.

    parameters: all of the network, with running statistics. parts: (images, targets) of this process, of equal size, on
    its first context. sum_over_ranks: adds an array over all processes, in float32.
    """
    trained = [each for each in parameters if each.grad_req != "null"]
    statistics = [each.list_data()[0] for each in parameters if each.grad_req == "null"]
    before, norms = [each.copy() for each in statistics], list[float]()
    total: Any = 0.0  # an array from the first part on
    for images, targets in parts:
        for parameter in trained:
            parameter.zero_grad()
        with autograd.record():
            loss = loss_function(network(images), targets).mean()
        loss.backward()
        gradient = mx.nd.concat(*(each.list_grad()[0].reshape(-1) for each in trained), dim=0)
        norms.append(float(gradient.astype("float64").square().sum().asscalar()))
        total = total + gradient
    for array, value in zip(statistics, before, strict=True):
        array[:] = value
    count = float(sum_over_ranks(np.array(float(len(norms)))))
    mean = sum_over_ranks(total.asnumpy()).astype(np.float64) / count
    return float(sum_over_ranks(np.array(sum(norms)))) / count, float(np.square(mean).sum())
