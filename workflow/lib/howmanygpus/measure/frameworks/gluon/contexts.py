"""
MXNet Gluon: one process per node, one context per device; a kvstore sums the gradients over the contexts.

BatchNorm is local to each context; evaluation uses the mean of all contexts' running statistics, which is also what
MXNet saves.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

from howmanygpus.measure.frameworks.gluon.family import (
    Network,
    Optimizer,
    copy_to,
    load_weights,
    map_parameters,
    read_weights,
    set_weight_decay,
    to_canonical,
)
from howmanygpus.measure.frameworks.gluon.kvstore import Servers
from howmanygpus.measure.frameworks.gluon.losses import build_loss
from howmanygpus.measure.frameworks.gluon.settings import describe_settings
from howmanygpus.measure.host.gpus import read_gpu_name
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import StepwiseBackend
from howmanygpus.measure.spec import RunSpec


class MxnetGluon(StepwiseBackend):
    out_of_memory_errors = (mx.MXNetError,)
    out_of_memory_text = "out of memory"

    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        # With fewer workers than contexts, CPU contexts take turns. Without the override, cuBLAS chooses TF32 itself.
        os.environ["MXNET_CPU_WORKER_NTHREADS"] = str(spec.devices_per_node)
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
        self.spec = spec
        make_context = mx.gpu if spec.device_kind == "cuda" else mx.cpu
        self.contexts = [make_context(i) for i in range(spec.devices_per_node)]
        self.network = Network(spec, data)
        self.network.initialize(ctx=self.contexts)
        self.parameters = map_parameters(self.network, weights)
        load_weights(self.parameters, weights)
        if spec.tier == "best":
            self.network.hybridize(static_alloc=True, static_shape=True)
        self.optimizer = Optimizer(spec.optimizer)
        trained = {name: parameter for name, parameter in self.parameters.items() if parameter.grad_req != "null"}
        set_weight_decay(trained, spec.optimizer.weight_decay_on)
        self.servers = Servers() if spec.num_nodes > 1 else None
        if self.servers:
            self.rank, self.num_processes = self.servers.rank, self.servers.num_processes
        # With a kvstore of None the trainer only updates: each context keeps its own gradient until the servers sum.
        self._trainer_sums = spec.exchanges and not self.servers
        kvstore = "device" if self._trainer_sums else None
        self.trainer = gluon.Trainer(trained, self.optimizer.optimizer, kvstore=kvstore)
        self._trained = list(trained.values())
        if spec.accumulate > 1:
            for parameter in self._trained:
                parameter.grad_req = "add"
        self.loss_function = build_loss(spec, data)
        self._losses: list[list[mx.nd.NDArray]] = []
        self._marker: list[mx.nd.NDArray] = []

    def _put(self, array: np.ndarray, contexts: list[mx.Context]) -> list[mx.nd.NDArray]:
        """Put an equal part of an array on each context."""
        return [copy_to(part, context) for part, context in zip(np.split(array, len(contexts)), contexts, strict=True)]

    def put_on_device(self, images: np.ndarray, labels: np.ndarray) -> list[tuple[mx.nd.NDArray, mx.nd.NDArray]]:
        return list(zip(self._put(images, self.contexts), self._put(labels, self.contexts), strict=True))

    def put_for_prediction(self, images: np.ndarray) -> list[mx.nd.NDArray]:
        return self._put(images, self.contexts if self.spec.eval_devices == "all" else self.contexts[:1])

    def wait_for_batch(self, batch: list[tuple[mx.nd.NDArray, mx.nd.NDArray]]) -> None:
        for array in itertools.chain(*batch):
            array.wait_to_read()

    def train_step(self, batch: list[tuple[mx.nd.NDArray, mx.nd.NDArray]], learning_rate: float) -> None:
        self.optimizer.prepare_step(learning_rate)
        if hasattr(self.network.model, "image_keys"):
            self.network.model.image_keys.begin_step()
        losses = self._differentiate(batch) if self.spec.accumulate == 1 else self._add_gradients(batch)
        if self._trainer_sums:
            self.trainer.step(self.spec.global_batch_size)
        else:
            if self.servers and self.spec.exchanges:
                self.servers.sum_gradients(self._trained)
            self.trainer.update(self.spec.global_batch_size)
        self._losses.append(losses)

    def _differentiate(self, batch: list[tuple[mx.nd.NDArray, mx.nd.NDArray]]) -> list[mx.nd.NDArray]:
        with autograd.record():
            pairs = [(self.network(images), labels) for images, labels in batch]
            if self.spec.loss_on_first_device:
                pairs = [tuple(self._gather_on_first(arrays) for arrays in zip(*pairs, strict=True))]
            losses = [self.loss_function(logits, labels) for logits, labels in pairs]
        autograd.backward(losses)
        return losses

    def _gather_on_first(self, arrays: Iterable[mx.nd.NDArray]) -> mx.nd.NDArray:
        return mx.nd.concat(*(array.as_in_context(self.contexts[0]) for array in arrays), dim=0)

    def _add_gradients(self, batch: list[tuple[mx.nd.NDArray, mx.nd.NDArray]]) -> list[mx.nd.NDArray]:
        """Add the gradients of the parts of a batch on each context."""
        for parameter in self._trained:
            parameter.zero_grad()
        size, losses = self.spec.per_device_batch_size, []
        for start in range(0, size * self.spec.accumulate, size):
            losses += self._differentiate([tuple(array[start : start + size] for array in pair) for pair in batch])
        return losses

    def prepare_evaluation(self) -> None:
        """Give every context the mean of all running statistics, or those of the first."""
        of_first = self.spec.eval_batchnorm == "first"
        for name, array in read_weights(self.parameters, of_first).items():
            if name.endswith((".mean", ".variance")):
                united = self._gather(array)[0] if of_first else self._average(array)
                self.parameters[name].set_data(mx.nd.array(united))

    def _average(self, values: np.ndarray) -> np.ndarray:
        """Return the mean over all processes."""
        return self._gather(values).mean(axis=0)

    def _gather(self, values: np.ndarray) -> np.ndarray:
        """Return the arrays of all processes, along a first axis."""
        return self.servers.gather(values).reshape(-1, *values.shape) if self.servers else values[None]

    def measure_gradients(self, batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
        if hasattr(self.network.model, "image_keys"):
            self.network.model.image_keys.prepare_step()
        parts, parameters = self._split_batches(batches), list(self.parameters.values())
        return measure_norms(
            self.network, parameters, self.loss_function, parts, lambda value: self._gather(value).sum(0)
        )

    def _split_batches(
        self, batches: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> Iterator[tuple[mx.nd.NDArray, mx.nd.NDArray]]:
        """Yield (images, labels) of each per-device batch, all on the first context."""
        size = self.spec.per_device_batch_size
        for images, labels in batches:
            for start in range(0, len(images), size):
                part = slice(start, start + size)
                yield copy_to(images[part], self.contexts[0]), copy_to(labels[part], self.contexts[0])

    def predict(self, batch: list[mx.nd.NDArray]) -> np.ndarray:
        if hasattr(self.network.model, "image_keys"):
            self.network.model.image_keys.begin_evaluation()
        logits = [self.network(images) for images in batch]
        return np.concatenate([part.asnumpy() for part in logits])

    def mark_step(self) -> list[mx.nd.NDArray]:
        """Return copies of the first layer's weights, whose gradient is the last that the backward pass computes.

        The weights themselves would also wait for later steps, which write to them.
        """
        self._marker = [replica.copy() for replica in self._trained[0].list_data()]
        return self._marker

    def wait_for_step(self, marker: list[mx.nd.NDArray]) -> None:
        for array in marker:
            array.wait_to_read()

    def wait_until_idle(self) -> None:
        for parameter in self.parameters.values():
            for replica in parameter.list_data():
                replica.wait_to_read()
        # The copies are separate operations, which MXNet may execute last.
        self.wait_for_step(self._marker)

    def read_window_loss(self, num_steps: int) -> float:
        """Read the first layer's weights too, because a loss depends on the forward pass only."""
        for replica in self._trained[0].list_data():
            replica.asnumpy()
        losses = list(itertools.chain(*self._losses))
        self._losses.clear()
        places = 1 if self.spec.loss_on_first_device else len(self.contexts)
        joined = [mx.nd.concat(*losses[i::places], dim=0) for i in range(places)]
        return float(np.mean([part.asnumpy().mean(dtype=np.float64) for part in joined]))

    def average_loss(self, loss: float) -> float:
        """The loss passes through float32, which has seven digits."""
        return float(self._average(np.array(loss)))

    def max_over_ranks(self, value: float) -> float:
        """The value passes through float32, which has seven digits."""
        return float(self.servers.gather(np.array(value)).max()) if self.servers else value

    def weights(self) -> dict[str, np.ndarray]:
        return read_weights(self.parameters)

    def replicas(self) -> list[dict[str, np.ndarray]]:
        trained = {name: parameter for name, parameter in self.parameters.items() if parameter.grad_req != "null"}
        return [
            {name: to_canonical(parameter.data(context).asnumpy()) for name, parameter in trained.items()}
            for context in self.contexts
        ]

    def peak_memory_bytes(self) -> int | None:
        """Return None, because MXNet keeps no peak of its memory pool."""
        return None

    def versions(self) -> dict[str, str]:
        return {"mxnet": mx.__version__, "numpy": np.__version__}

    def settings(self) -> dict[str, str]:
        kvstore = self.servers.store if self.servers and self.spec.exchanges else self.trainer._kvstore
        described = describe_settings(self.network, self.optimizer.optimizer, self.spec)
        described["optimizer"] += ", on the kvstore" if self.trainer._update_on_kvstore else ", on each context"
        without = "one context" if self.spec.exchanges else "each context updates by its own gradient"
        return described | {"exchange": f"kvstore {kvstore.type}" if kvstore else f"none, {without}"}

    def close(self) -> None:
        if self.servers:
            self.servers.close()

    def device_model(self) -> str | None:
        return read_gpu_name() if self.spec.device_kind == "cuda" else None


def measure_norms(
    network: mx.gluon.Block,
    parameters: list[mx.gluon.Parameter],
    loss_function: Callable[[mx.nd.NDArray, mx.nd.NDArray], mx.nd.NDArray],
    parts: Iterable[tuple[mx.nd.NDArray, mx.nd.NDArray]],
    sum_over_ranks: Callable[[np.ndarray], np.ndarray],
) -> tuple[float, float]:
    """Return the mean squared norm of the parts' gradients, and the squared norm of their mean.

    Running statistics are restored, and each step of the training computes its gradients anew.

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


BACKEND = MxnetGluon
