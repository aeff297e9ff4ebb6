"""
PyTorch nn.DataParallel: one process, which copies the network to every GPU anew in each step.

The loss is computed on the first GPU, from gathered logits; with loss_on_every_device each GPU computes its own.
BatchNorm is local to each device; the running statistics of the first evaluate, as DataParallel keeps no others.
"""

import numpy as np
import torch
from torch import nn

from trainbench.backend import StepwiseBackend
from trainbench.data import PreparedData
from trainbench.families.torch import (
    Network,
    apply_tier,
    build_optimizer,
    load_weights,
    read_weights,
    set_precision,
    to_device,
    versions,
)
from trainbench.spec import RunSpec


class NetworkWithLoss(nn.Module):
    """What DataParallel runs on each device where the loss is computed there."""

    def __init__(self, network: Network, loss_function: nn.Module):
        super().__init__()
        self.network, self.loss_function = network, loss_function

    def forward(self, images, labels):
        return self.loss_function(self.network(images), labels)[None]


class PytorchDp(StepwiseBackend):
    running_statistics = "first device"
    out_of_memory_errors = (torch.OutOfMemoryError,)

    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        self.spec, self.is_cuda = spec, spec.device_kind == "cuda"
        self.device = torch.device("cuda", 0) if self.is_cuda else torch.device("cpu")
        torch.set_num_threads(spec.cores_per_device)
        set_precision(spec, self.device)
        network = Network(spec, data)
        load_weights(network.model, weights)
        self._weight_names, self.network = list(weights), apply_tier(network.to(self.device), spec)
        self.optimizer = build_optimizer(self.network.parameters(), spec)
        self.loss_function = nn.CrossEntropyLoss(reduction="mean")
        device_ids = list(range(spec.num_gpus)) if self.is_cuda else None
        self._on_devices = nn.DataParallel(self.network, device_ids)
        self._loss_on_devices = nn.DataParallel(NetworkWithLoss(self.network, self.loss_function), device_ids)
        self._losses = []
        self.network.train()

    def train_step(self, images: np.ndarray, labels: np.ndarray, learning_rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.zero_grad(set_to_none=True)
        images, labels = to_device(images, self.device), to_device(labels, self.device).long()
        if self.spec.loss_on_every_device:
            loss = self._loss_on_devices(images, labels).mean()
        else:
            loss = self.loss_function(self._on_devices(images), labels)
        loss.backward()
        self.optimizer.step()
        self._losses.append(loss.detach())

    @torch.no_grad()
    def predict(self, images: np.ndarray) -> np.ndarray:
        self.network.eval()
        logits = self._on_devices(to_device(images, self.device)).cpu().numpy()
        self.network.train()
        return logits

    def wait_until_idle(self) -> None:
        if self.is_cuda:
            for device in range(self.spec.num_gpus):
                torch.cuda.synchronize(device)

    def take_window_loss(self, num_steps: int) -> float:
        total = torch.stack(self._losses).sum(dtype=torch.float64).item()
        self._losses.clear()
        return total / num_steps

    def max_over_ranks(self, value: float) -> float:
        return value

    def weights(self) -> dict[str, np.ndarray]:
        return read_weights(self.network.model, self._weight_names)

    def peak_memory_bytes(self) -> int | None:
        if not self.is_cuda:
            return None
        return max(torch.cuda.max_memory_allocated(device) for device in range(self.spec.num_gpus))

    def versions(self) -> dict[str, str]:
        return versions(self.is_cuda)

    def device_model(self) -> str | None:
        return torch.cuda.get_device_name(self.device) if self.is_cuda else None


BACKEND = PytorchDp
