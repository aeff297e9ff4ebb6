"""
PyTorch DistributedDataParallel: one process per device, started by torchrun; NCCL on GPUs, gloo on CPUs.

BatchNorm is local to each process; the mean of the processes' running statistics evaluates.
"""

import os

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from trainbench.backend import StepwiseBackend
from trainbench.data import PreparedData
from trainbench.families.torch import (
    Network,
    apply_tier,
    build_optimizer,
    load_weights,
    read_weights,
    running_statistics,
    set_precision,
    to_device,
    versions,
)
from trainbench.processes import bind_to_device_cores
from trainbench.spec import RunSpec


class PytorchDdp(StepwiseBackend):
    out_of_memory_errors = (torch.OutOfMemoryError,)

    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        self.rank, self.num_processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        local_rank = int(os.environ["LOCAL_RANK"])
        bind_to_device_cores(local_rank, spec.cores_per_device)
        torch.set_num_threads(spec.cores_per_device)
        self.is_cuda = spec.device_kind == "cuda"
        self.device = torch.device("cuda", local_rank) if self.is_cuda else torch.device("cpu")
        if self.is_cuda:
            torch.cuda.set_device(self.device)
        set_precision(spec, self.device)
        dist.init_process_group("nccl" if self.is_cuda else "gloo", device_id=self.device if self.is_cuda else None)
        network = Network(spec, data)
        load_weights(network.model, weights)
        self._weight_names = list(weights)
        self.network = DistributedDataParallel(
            apply_tier(network.to(self.device), spec),
            device_ids=[local_rank] if self.is_cuda else None,
            forward_sync_buffers=False,
        )
        self.optimizer = build_optimizer(self.network.parameters(), spec)
        self.loss_function = torch.nn.CrossEntropyLoss(reduction="mean")
        self._losses = []
        self.network.train()

    def train_step(self, images: np.ndarray, labels: np.ndarray, learning_rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_function(self.network(to_device(images, self.device)), to_device(labels, self.device).long())
        loss.backward()
        self.optimizer.step()
        self._losses.append(loss.detach())

    @torch.no_grad()
    def prepare_evaluation(self) -> None:
        """Give every process the mean of all running statistics."""
        if statistics := running_statistics(self.network):
            mean = torch.cat(statistics)
            dist.all_reduce(mean)
            for statistic, part in zip(statistics, mean.split([len(each) for each in statistics]), strict=True):
                statistic.copy_(part / self.num_processes)

    @torch.no_grad()
    def predict(self, images: np.ndarray) -> np.ndarray:
        self.network.eval()
        logits = self.network(to_device(images, self.device)).cpu().numpy()
        self.network.train()
        return logits

    def wait_until_idle(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize(self.device)

    def take_window_loss(self, num_steps: int) -> float:
        total = torch.stack(self._losses).sum(dtype=torch.float64)
        self._losses.clear()
        dist.all_reduce(total)
        return total.item() / (num_steps * self.num_processes)

    def max_over_ranks(self, value: float) -> float:
        tensor = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tensor.item()

    def weights(self) -> dict[str, np.ndarray]:
        return read_weights(self.network.module.model, self._weight_names)

    def peak_memory_bytes(self) -> int | None:
        return torch.cuda.max_memory_allocated(self.device) if self.is_cuda else None

    def versions(self) -> dict[str, str]:
        return versions(self.is_cuda)

    def device_model(self) -> str | None:
        return torch.cuda.get_device_name(self.device) if self.is_cuda else None

    def close(self) -> None:
        dist.destroy_process_group()


BACKEND = PytorchDdp
