"""Batches of the Chainer family, on the device or on their way there."""

from dataclasses import dataclass
from typing import Any

import chainer
import numpy as np


@dataclass(frozen=True)
class Batch:
    """Arrays on a device. `copied` is CuPy's event that completes with their copy; None if nothing had to be copied."""

    arrays: tuple
    copied: Any

    def take(self) -> tuple:
        """Return the arrays; work that is enqueued from now on waits for the copy."""
        if self.copied is not None:
            chainer.backends.cuda.Stream.null.wait_event(self.copied)
        return self.arrays

    def wait(self) -> None:
        if self.copied is not None:
            self.copied.synchronize()


class Copier:
    """Puts arrays on a device; on a GPU by a separate stream, while the null stream computes.

    CuPy copies numpy arrays through pinned memory, which it keeps until they are copied.
    """

    def __init__(self, device: chainer.backend.Device):
        self._device, self._stream, self._used = device, None, None
        if device.name != "@numpy":
            with chainer.using_device(device):
                self._stream = chainer.backends.cuda.Stream(non_blocking=True)

    def put(self, *arrays: np.ndarray) -> Batch:
        if self._stream is None:
            return Batch(arrays, None)
        # This thread keeps the device. `using_device` would go back to the first one, for which CUDA makes a context of
        # several hundred MiB there in each process.
        self._device.use()
        with self._stream:
            if self._used is not None:
                self._stream.wait_event(self._used)
            copies = tuple(chainer.backends.cuda.cupy.asarray(array) for array in arrays)
            # A thread that waits for the event sleeps. By default it would spin, and take a core from the loader.
            arrival = chainer.backends.cuda.cupy.cuda.Event(block=True, disable_timing=True)
            return Batch(copies, self._stream.record(arrival))

    def record_use(self) -> None:
        """Call once all work on the batches taken so far is enqueued, while they are still referenced.

        CuPy reuses the memory of a batch as soon as Python releases it, even if the device has not read it yet. Later
        copies therefore wait for the work that is enqueued now.
        """
        if self._stream is not None:
            self._used = chainer.backends.cuda.Stream.null.record()
