"""The contract that every framework fulfils."""

import abc
import importlib
from typing import Any

import numpy as np

from howmanygpus.train.input.prepared import PreparedData
from howmanygpus.train.spec import RunSpec


class UnsupportedError(Exception):
    """The run asks for something that this framework or device does not have; becomes a status."""


class Backend(abc.ABC):
    """One framework, set up on the devices of one process.

    A backend only enqueues work: it never times, logs, evaluates or synchronises by itself. The constructor
    reads `weights` (canonical names and layouts) and raises UnsupportedError where the run cannot be done.

    What puts batches on the device is called from a thread of its own while others train and predict: it enqueues
    copies and waits for nothing that it need not. Nobody writes to its arrays afterwards.
    """

    rank = 0
    num_processes = 1
    running_statistics = "mean of all devices"
    """Which evaluate where BatchNorm is local: these or those of the `first device`."""
    out_of_memory_errors: tuple[type[Exception], ...] = ()
    """What the framework raises where a device's memory is exhausted; becomes a status."""
    out_of_memory_text = ""
    """Part of the message that tells such an error from others of the same class."""

    @abc.abstractmethod
    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        """learning_rates: float32, one per step of the run."""

    @abc.abstractmethod
    def train(self, loop) -> None:
        """Take every step of the run on the batches of `loop`, calling loop.after_step after each."""

    def prepare_evaluation(self) -> None:  # noqa: B027
        """Called before each evaluation: agree over all devices on the running statistics that evaluate."""

    @abc.abstractmethod
    def put_on_device(self, images: np.ndarray, labels: np.ndarray) -> Any:
        """Enqueue the copies of a batch to this process's devices; returns what train_step takes.

        images: uint8 (local batch, height, width, channels); labels: int32 (local batch,).
        """

    @abc.abstractmethod
    def put_for_prediction(self, images: np.ndarray) -> Any:
        """The same for predict: to all devices, or to the first where `eval_devices` is that."""

    @abc.abstractmethod
    def predict(self, batch: Any) -> np.ndarray:
        """Logits of a batch from put_for_prediction with the running statistics; blocks. Float32 (batch, classes)."""

    @abc.abstractmethod
    def wait_until_idle(self) -> None:
        """Block until every device of this process has finished all steps so far.

        Copies of batches ahead belong to later steps: they need not be waited for.
        """

    def wait_for_batch(self, batch: Any) -> None:
        """Block until a batch from put_on_device is there."""
        self.wait_until_idle()

    @abc.abstractmethod
    def take_window_loss(self, num_steps: int) -> float:
        """Mean training loss over all devices and the last num_steps steps; blocks, same on every process."""

    def max_over_ranks(self, value: float) -> float:
        """Largest value of all processes, on each of them; with one process, its own."""
        return value

    @abc.abstractmethod
    def weights(self) -> dict[str, np.ndarray]:
        """Current weights under canonical names and layouts; running statistics are those that evaluate."""

    @abc.abstractmethod
    def peak_memory_bytes(self) -> int | None:
        """Peak of the framework's allocator on its fullest device; None where the framework keeps no count."""

    @abc.abstractmethod
    def versions(self) -> dict[str, str]:
        """Framework and library versions, most important first."""

    @abc.abstractmethod
    def device_model(self) -> str | None:
        """Name of the accelerator; None on a CPU, whose name the launcher records."""

    @classmethod
    def is_out_of_memory(cls, error: Exception) -> bool:
        return isinstance(error, cls.out_of_memory_errors) and cls.out_of_memory_text in str(error)

    def close(self) -> None:  # noqa: B027
        """Leave the process group, if there is one."""


class StepwiseBackend(Backend):
    """For frameworks whose users write the loop."""

    @abc.abstractmethod
    def train_step(self, batch: Any, learning_rate: float) -> None:
        """Enqueue one optimizer step on a batch from put_on_device."""

    def train(self, loop) -> None:
        for batch in loop.batches():
            self.train_step(batch, loop.learning_rate)
            loop.after_step()


def load_backend(spec: RunSpec) -> type[Backend]:
    """The class that the strategy's file of the family names BACKEND."""
    return importlib.import_module(f"howmanygpus.train.frameworks.{spec.family}.{spec.strategy}").BACKEND
