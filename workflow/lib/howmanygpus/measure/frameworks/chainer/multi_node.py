"""
ChainerMN: one process per device, started by mpirun; NCCL on GPUs, plain MPI on CPUs.

BatchNormalization is local to each process; evaluation uses the mean of the processes' running statistics.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import chainer
import chainermn
import numpy as np
from mpi4py import MPI

from howmanygpus.measure.frameworks.chainer.batch import Batch, Copier
from howmanygpus.measure.frameworks.chainer.family import Network, Optimizer, apply_tier, require_cudnn
from howmanygpus.measure.frameworks.chainer.losses import build_loss
from howmanygpus.measure.frameworks.chainer.settings import describe_settings
from howmanygpus.measure.host.processes import bind_to_device_cores
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import StepwiseBackend
from howmanygpus.measure.spec import RunSpec

Saved = list[tuple[chainer.Link, str, Any]]


class ChainerMn(StepwiseBackend):
    if chainer.backends.cuda.available:
        out_of_memory_errors = (chainer.backends.cuda.cupy.cuda.memory.OutOfMemoryError,)

    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        # Chainer has no switch for TF32, which cuDNN and cuBLAS would choose.
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
        self.is_cuda, self._accumulate = spec.device_kind == "cuda", spec.accumulate
        self._exchanges, self._of_first = spec.exchanges, spec.eval_batchnorm == "first"
        self._small_batch_size = spec.per_device_batch_size
        if self.is_cuda:
            require_cudnn()
        self.communicator = chainermn.create_communicator("pure_nccl" if self.is_cuda else "naive")
        self.rank, self.num_processes = self.communicator.rank, self.communicator.size
        self.device = chainer.get_device(f"@cupy:{self.communicator.intra_rank}" if self.is_cuda else "@numpy")
        bind_to_device_cores(self.communicator.intra_rank, spec.cores_per_device)
        self.device.use()
        apply_tier(spec.tier)
        self.loss_function = build_loss(spec, data)
        self.network = Network(spec, data, self.communicator)
        self._weight_names = list(weights)
        self.network.load_weights(weights)
        self.network.to_device(self.device)
        self.optimizer = Optimizer(spec.optimizer)
        self.multi_node_optimizer = chainermn.create_multi_node_optimizer(self.optimizer.optimizer, self.communicator)
        self.optimizer.setup(self.network, self._weight_names)
        # The first update of a multi-node optimizer only broadcasts; every process already has the same weights.
        self.multi_node_optimizer.update(lambda: chainer.Variable(np.zeros((), np.float32)))
        self._copier = Copier(self.device)
        self._losses: list[Any] = []  # arrays of numpy or CuPy

    def put_on_device(self, images: np.ndarray, labels: np.ndarray) -> Batch:
        return self._copier.put(images, labels)

    def put_for_prediction(self, images: np.ndarray) -> Batch:
        return self._copier.put(images)

    def wait_for_batch(self, batch: Batch) -> None:
        batch.wait()

    def train_step(self, batch: Batch, learning_rate: float) -> None:
        self.optimizer.prepare_step(learning_rate)
        images, labels = batch.take()
        if self._accumulate == 1:
            loss = self.loss_function(self.network(images), labels)
            self.network.cleargrads()
            loss.backward()
            losses = [loss.array]
        else:
            losses = self._add_gradients(images, labels)
        self._copier.record_use()
        optimizer = self.multi_node_optimizer if self._exchanges else self.optimizer.optimizer
        optimizer.update()
        self._losses += losses
        if hasattr(self.network.model, "image_keys"):
            self.network.model.image_keys.steps += 1

    def _add_gradients(self, images: Any, labels: Any) -> list[Any]:
        """Add the gradients of the parts of a batch. Return each part's share of the mean loss."""
        self.network.cleargrads()
        losses, size = [], len(images) // self._accumulate
        for start in range(0, len(images), size):
            part = slice(start, start + size)
            loss = self.loss_function(self.network(images[part]), labels[part]) / self._accumulate
            loss.backward()
            losses.append(loss.array)
        return losses

    def prepare_evaluation(self) -> None:
        """Give every process the mean of all running statistics, or the first process's.

        They pass through the host, because ChainerMN's own functions hand memory of a GPU to MPI, which may be unable
        to read it, as that of the workflow's environment is.
        """
        exchange, xp = self.communicator.mpi_comm, self.device.xp
        for _, link in sorted(self.network.model.namedlinks()):
            for name in sorted(link._persistent):
                if not isinstance(value := getattr(link, name), xp.ndarray):
                    continue
                joined = chainer.backends.cuda.to_cpu(value).copy()
                if self._of_first:
                    exchange.Bcast(joined, root=0)
                else:
                    exchange.Allreduce(MPI.IN_PLACE, joined)
                    joined *= 1.0 / self.num_processes
                value[...] = xp.asarray(joined)

    def measure_gradients(self, batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
        return measure_norms(
            self.network, self.loss_function, self._split_batches(batches), self.communicator.mpi_comm.allreduce
        )

    def _split_batches(self, batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> Iterator[tuple[Any, Any]]:
        """Yield (images, labels) of each per-device batch."""
        for batch in batches:
            images, labels = self.put_on_device(*batch).take()
            for start in range(0, len(images), self._small_batch_size):
                part = slice(start, start + self._small_batch_size)
                yield images[part], labels[part]

    def predict(self, batch: Batch) -> np.ndarray:
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            return chainer.backends.cuda.to_cpu(self.network(*batch.take()).array)

    def mark_step(self) -> Any:
        """Return CuPy's event, whose wait sleeps: a thread that spins would take a core from the loader."""
        if not self.is_cuda:
            return None
        cuda = chainer.backends.cuda
        return cuda.Stream.null.record(cuda.cupy.cuda.Event(block=True, disable_timing=True))

    def wait_for_step(self, marker: Any) -> None:
        # A thread that has not chosen a device may create a context on the first.
        self.device.use()
        marker.synchronize()

    def wait_until_idle(self) -> None:
        if self.is_cuda:
            chainer.backends.cuda.Stream.null.synchronize()

    def read_window_loss(self, num_steps: int) -> float:
        total = float(np.sum([float(loss) for loss in self._losses]))
        self._losses.clear()
        return total / num_steps

    def average_loss(self, loss: float) -> float:
        return self.communicator.allreduce_obj(loss) / self.num_processes

    def max_over_ranks(self, value: float) -> float:
        return max(self.communicator.mpi_comm.allgather(value))

    def weights(self) -> dict[str, np.ndarray]:
        return self.network.read_weights(self._weight_names)

    def peak_memory_bytes(self) -> int | None:
        """Return None, because CuPy keeps no peak of its memory pool."""
        return None

    def versions(self) -> dict[str, str]:
        return {"chainer": chainer.__version__, "numpy": np.__version__}

    def settings(self) -> dict[str, str]:
        exchange = f"ChainerMN, {type(self.communicator).__name__}" if self._exchanges else "none, Chainer's optimizer"
        return describe_settings(self.optimizer.optimizer, self.is_cuda) | {"exchange": exchange}

    def device_model(self) -> str | None:
        if not self.is_cuda:
            return None
        return chainer.backends.cuda.cupy.cuda.runtime.getDeviceProperties(self.device.device.id)["name"].decode()


def measure_norms(
    network: chainer.Chain,
    loss_function: Callable[..., chainer.Variable],
    parts: Iterable[tuple[Any, Any]],
    sum_over_ranks: Callable[[np.ndarray], np.ndarray],
) -> tuple[float, float]:
    """Return the mean squared norm of the parts' gradients, and the squared norm of their mean.

    Nothing is exchanged while the gradients are computed. Running statistics are restored, and each step of the
    training clears the gradients before it computes its own.

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


BACKEND = ChainerMn
