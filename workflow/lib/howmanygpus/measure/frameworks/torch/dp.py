"""
PyTorch nn.DataParallel: one process, which copies the network to every GPU in each step.

DataParallel's replicas are shallow copies of the network. They would share the original's compiled code and compute its
output, so the `best` tier does not use torch.compile.

The loss is computed on the first GPU from gathered logits; with loss_on_every_device each GPU computes its own.
BatchNorm is local to each device; evaluation uses the first device's running statistics, as DataParallel keeps no
others.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from howmanygpus.measure.frameworks.number_formats import NumberFormats
from howmanygpus.measure.frameworks.torch.family import Network, TorchBackend
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.spec import RunSpec


class NetworkWithLoss(nn.Module):
    """Network and loss together, for DataParallel to compute the loss on each device."""

    def __init__(self, network: Network, loss_function: nn.Module):
        super().__init__()
        self.network, self.loss_function = network, loss_function

    def forward(self, images, labels):
        return self.loss_function(self.network(images), labels)[None]


class PytorchDp(TorchBackend):
    running_statistics = "first device"
    compile_mode = None

    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        self.set_up(spec, data, weights, device_index=0)
        device_ids = list(range(spec.num_gpus)) if self.is_cuda else None
        self.devices = [torch.device("cuda", index) for index in device_ids or ()] or self.devices
        # Like the processes of other strategies, devices draw different random numbers in a user's model.
        for index in range(1, len(self.devices)) if spec.model_file else ():
            torch.cuda.default_generators[index].manual_seed(spec.seed + index)
        with_loss = NetworkWithLoss(self.network, self.loss_function)
        self.network = nn.DataParallel(self.network, device_ids)
        self._loss_on_devices = nn.DataParallel(with_loss, device_ids)

    @contextmanager
    def watch_exchange(self, numbers: NumberFormats) -> Iterator[None]:
        """Say that the exchange is not observed: DataParallel adds gradients inside PyTorch's copies between GPUs."""
        numbers.exchanged = None
        yield

    def compute_loss(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self.spec.loss_on_every_device:
            return self._loss_on_devices(images, labels).mean()
        return super().compute_loss(images, labels)

    def settings(self) -> dict[str, str]:
        return super().settings() | {"exchange": "nn.DataParallel: parameters and gradients copied in each step"}

    def peak_memory_bytes(self) -> int | None:
        if not self.is_cuda:
            return None
        return max(torch.cuda.max_memory_allocated(device) for device in range(self.spec.num_gpus))


BACKEND = PytorchDp
