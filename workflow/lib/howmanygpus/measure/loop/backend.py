"""The contract that every framework fulfils. measure/frameworks/__init__.py describes the layout of its folder."""

import abc
import importlib
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from howmanygpus.measure.host.gpus import read_memory_in_use_frac
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.memory_messages import FAILED_ALLOCATION
from howmanygpus.measure.loss_scaling import LossScale
from howmanygpus.measure.models.own import add_folder
from howmanygpus.measure.spec import RunSpec

AMBIGUOUS_MESSAGES = re.compile(
    r"(?:GET|FIND) was unable to find an engine to execute this computation"
    r"|(?:CUBLAS|CUDNN)_STATUS_NOT_INITIALIZED|CUDNN_STATUS_INTERNAL_ERROR(?!_)"
    r"|unhandled cuda error(?![\s\S]*Cuda failure)"
    r"|Failed to find any \w+ convolution algorithm|No algorithm worked|All algorithms tried for"
    r"|Failed to determine best cudnn convolution algorithm|No valid config found",
    re.IGNORECASE,
)
"""Ambiguous messages: the library found no memory for a workspace, a handle or a trial, or failed for another reason.

PyTorch and MXNet try one algorithm of cuDNN after the other, and XLA and TensorFlow measure them. If there is no memory
for any, they only say that none has worked, as if cuDNN had none for such a layer. cuBLAS and cuDNN say that they are
not initialized if there is no memory for their handles.
"""
KERNEL_MEMORY_MESSAGES = re.compile("shared memory|register spilling", re.IGNORECASE)
"""Memory of a multiprocessor, which a kernel can exhaust at any batch size. XLA reports it with the same status."""
EXHAUSTED_FRAC = 0.5
"""Fraction of a device's memory that must be in use for an ambiguous message to count as exhausted memory.

A layer without an algorithm fails in the first step, when little more than weights and one batch are on the device.
"""


class UnsupportedError(Exception):
    """The run asks for something that this framework or device does not have. The run ends with that status."""


class Backend(abc.ABC):
    """One framework, set up on the devices of one process.

    A backend only enqueues work: it never times, logs, evaluates or synchronises by itself. The constructor
    reads `weights` (canonical names and layouts) and raises UnsupportedError if the run cannot be done.

    A batch has one block of accumulate * per_device_batch_size images for each device. With `accumulate` above 1 a
    device takes its block in `accumulate` parts, one after the other, and all devices exchange the sum of the parts'
    gradients once.

    put_on_device and put_for_prediction are called from a separate thread while the main thread trains and predicts.
    They enqueue copies, and block only if they must. Their arrays are not written to afterwards.
    """

    rank = 0
    num_processes = 1
    running_statistics = "mean of all devices"
    """Running statistics that evaluation uses if BatchNorm is local: this, or `first device`."""
    takes_batches_itself = False
    """Whether the framework, not put_on_device, takes the batches of the training to the devices."""
    out_of_memory_errors: tuple[type[Exception], ...] = ()
    """Exceptions of the framework if a device's memory is exhausted. The run then ends with that status."""
    out_of_memory_text = ""
    """Part of the message that distinguishes such an error from others of the same class."""

    @abc.abstractmethod
    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        """learning_rates: float32, one for each step of the run."""

    @abc.abstractmethod
    def train(self, loop) -> None:
        """Take every step of the run on the batches of `loop`, as measure/loop/loop.py describes."""

    def prepare_evaluation(self) -> None:  # noqa: B027
        """Make the running statistics that evaluation uses equal on all devices. Called before each evaluation."""

    @abc.abstractmethod
    def put_on_device(self, images: np.ndarray, labels: np.ndarray) -> Any:
        """Enqueue the copies of a batch to this process's devices, and return the argument of train_step.

        images: uint8 (local batch, height, width, channels); labels: the targets, int32 (local batch,) or, with any
        number of labels per image, float32 (local batch, classes); see measure.loop.targets.
        """

    @abc.abstractmethod
    def put_for_prediction(self, images: np.ndarray) -> Any:
        """Enqueue the copies of images for predict, to all devices or, with `eval_devices: first`, to the first."""

    @abc.abstractmethod
    def predict(self, batch: Any) -> np.ndarray:
        """Return float32 logits (batch, classes) of a batch from put_for_prediction. Blocks.

        BatchNorm uses its running statistics, unless the run evaluates by batch.
        """

    def measure_gradients(self, batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
        """Return the mean squared norm of the gradients of per-device batches, and the squared norm of their mean.

        batches: this process's host batches, as put_on_device takes them. The means are over all processes, so every
        process must call it. It changes nothing that training uses. Blocks. Only frameworks with `measures_noise` in
        the registry implement it.
        """
        raise NotImplementedError

    @abc.abstractmethod
    def wait_until_idle(self) -> None:
        """Block until every device of this process has finished all steps so far.

        Copies of later steps' batches need not be finished.
        """

    @abc.abstractmethod
    def mark_step(self) -> Any:
        """Return a marker of the step that was enqueued last, for wait_for_step; None if the step is complete."""

    def wait_for_step(self, marker: Any) -> None:  # noqa: B027
        """Block until the step is complete, without holding the GIL. Called from a separate thread.

        It must not use wait_until_idle, because the two are independent signals, and should not wait for later steps.
        """

    def wait_for_batch(self, batch: Any) -> None:  # noqa: B027
        """Block until a batch from put_on_device has arrived, but not for steps. Called from the thread that put it."""

    @abc.abstractmethod
    def read_window_loss(self, num_steps: int) -> float:
        """Return the mean training loss of this process's devices, or of all, in the last num_steps steps. Blocks.

        The value must depend on the last step, if possible on its update of the weights, because reading it ends the
        window. Nothing is exchanged with other processes, because the wait for them is not part of a step.
        """

    def average_loss(self, loss: float) -> float:
        """Return the mean over all processes of the results of read_window_loss, equal on all of them."""
        return loss

    def read_loss_scale(self) -> LossScale | None:
        """Return the state of the loss scaling, equal on all processes; None in any precision but fp16. Blocks."""
        return None

    def set_loss_scales(self, scales: list[float]) -> None:  # noqa: B027
        """Set the loss scale of each device of this process in fp16, for the parity gate. A step was taken before.

        A backend with one scale for all its devices takes the last one.
        """

    def max_over_ranks(self, value: float) -> float:
        """Return the largest value of all processes, on each of them; with one process, its own."""
        return value

    def load(self, weights: dict[str, np.ndarray]) -> None:
        """Replace all weights on one device, for the parity gate. The optimizer keeps its moments.

        Only the plain strategies of users' own models implement it.
        """
        raise NotImplementedError

    def seed_draws(self, seed: int) -> None:
        """Seed what a user's own model draws in training, for the parity gate. Plain strategies implement it."""
        raise NotImplementedError

    @abc.abstractmethod
    def weights(self) -> dict[str, np.ndarray]:
        """Return current weights under canonical names and layouts; running statistics are those of the evaluation."""

    def replicas(self) -> list[dict[str, np.ndarray]]:
        """Return the trainable weights of every device of this process, for the parity gate to compare.

        A process with one device, or with one copy of the weights for all of them, has one.
        """
        return [self.weights()]

    @abc.abstractmethod
    def peak_memory_bytes(self) -> int | None:
        """Return the peak of the framework's allocator on its fullest device; None if the framework does not count."""

    @abc.abstractmethod
    def versions(self) -> dict[str, str]:
        """Return framework and library versions, the most important first."""

    @abc.abstractmethod
    def settings(self) -> dict[str, str]:
        """Return how the framework runs the training, read back from the framework; see `settings` of run.schema.yaml.

        Called after training. Keys that do not apply to the device are left out.
        """

    @abc.abstractmethod
    def device_model(self) -> str | None:
        """Return the name of the accelerator; None on a CPU, whose name the launcher records."""

    @classmethod
    def read_memory_in_use_frac(cls) -> float | None:
        """Return the fraction of its memory that is in use on the fullest device; None if unknown.

        A framework that takes a device's memory when it starts asks its own allocator instead of the driver.
        """
        return read_memory_in_use_frac()

    @classmethod
    def explain_out_of_memory(cls, error: BaseException) -> str:
        """Return why a device's memory is exhausted, in the framework or in a library of CUDA; empty if it is not.

        A compiler or a thread may have wrapped the first error in one of its own.
        """
        doubtful = ""
        for each in list_causes(error):
            text = str(each)
            said = (text.strip() or type(each).__name__).splitlines()[0]
            by_framework = isinstance(each, cls.out_of_memory_errors) and cls.out_of_memory_text in text
            if (by_framework and not KERNEL_MEMORY_MESSAGES.search(said)) or FAILED_ALLOCATION.search(text):
                return said
            doubtful = doubtful or (said if AMBIGUOUS_MESSAGES.search(text) else "")
        in_use = cls.read_memory_in_use_frac() if doubtful else None
        if in_use is None or in_use < EXHAUSTED_FRAC:
            return ""
        return f"{doubtful} ({in_use:.0%} of the device's memory was in use)"

    def close(self) -> None:  # noqa: B027
        """Leave the process group, if there is one."""


class StepwiseBackend(Backend):
    """A backend for frameworks whose users write the loop."""

    @abc.abstractmethod
    def train_step(self, batch: Any, learning_rate: float) -> None:
        """Enqueue one optimizer step on a batch from put_on_device."""

    def train(self, loop) -> None:
        for batch in loop.batches():
            self.train_step(batch, loop.learning_rate)
            loop.after_step()


def list_causes(error: BaseException) -> list[BaseException]:
    """Return an error and its chain of causes, the last one first."""
    found, cause = [error], error.__cause__ or error.__context__
    while cause is not None and cause not in found:
        found.append(cause)
        cause = cause.__cause__ or cause.__context__
    return found


def load_backend(spec: RunSpec) -> type[Backend]:
    """Return BACKEND of the strategy's file in the family's folder, and make the run's model importable."""
    if spec.model_folder:
        add_folder(spec.model_folder)
    return importlib.import_module(f"howmanygpus.measure.frameworks.{spec.family}.{spec.strategy}").BACKEND
