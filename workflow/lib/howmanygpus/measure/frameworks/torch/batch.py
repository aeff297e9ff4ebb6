"""Batches of the PyTorch family, on the device or on their way there."""

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Batch:
    """Tensors on a device. `copied` is the event that completes with their copy; None if nothing had to be copied."""

    tensors: list[torch.Tensor]
    copied: torch.cuda.Event | None

    def take(self) -> list[torch.Tensor]:
        """Return the tensors; work that is enqueued from now on waits for the copy.

        The memory belongs to the copying stream. record_stream tells the allocator that this stream uses it now, so
        that it is not reused before the work is done.
        """
        if self.copied is not None:
            stream = torch.cuda.current_stream(self.tensors[0].device)
            stream.wait_event(self.copied)
            for tensor in self.tensors:
                tensor.record_stream(stream)
        return self.tensors

    def wait(self) -> None:
        if self.copied is not None:
            self.copied.synchronize()


class Copier:
    """Puts arrays on a device; on a GPU from pinned memory and by a separate stream, while the device computes."""

    def __init__(self, device: torch.device):
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def put(self, *arrays: np.ndarray) -> Batch:
        tensors = [torch.from_numpy(np.require(array, requirements=["C", "W"])) for array in arrays]
        if self._stream is None:
            return Batch(tensors, None)
        # The current device belongs to a thread, and a new thread has the first. After the copy, `stream` would go back
        # to it, for which CUDA makes a context of several hundred MiB there in each process.
        torch.cuda.set_device(self._device)
        with torch.cuda.stream(self._stream):
            tensors = [tensor.pin_memory().to(self._device, non_blocking=True) for tensor in tensors]
            # A thread that waits for the event sleeps. By default it would spin, and take a core from the loader.
            return Batch(tensors, self._stream.record_event(torch.cuda.Event(blocking=True)))
