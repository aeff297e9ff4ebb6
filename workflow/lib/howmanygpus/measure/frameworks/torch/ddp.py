"""
PyTorch DistributedDataParallel: one process per device; NCCL on GPUs, gloo on CPUs.

BatchNorm is local to each process; evaluation uses the mean of the processes' running statistics. Gradients are
exchanged as they are, or compressed by hooks that are part of PyTorch. Without exchange, all steps are in DDP's
no_sync().

The `best` tier leaves DDP out if there is nothing to exchange, and replays the compiled network as CUDA graphs then.
CUDA graphs are not used with DDP, whose hooks take gradients in the middle of a replay, nor if gradients are
accumulated, because the next replay would overwrite them. In DDP gradients are views of its buckets, and are not copied
back.
"""

import gc
import os
from contextlib import AbstractContextManager
from datetime import timedelta
from inspect import signature
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from howmanygpus.measure.frameworks.torch import running_statistics
from howmanygpus.measure.frameworks.torch.family import TorchBackend
from howmanygpus.measure.host.processes import bind_to_device_cores
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import UnsupportedError
from howmanygpus.measure.spec import RunSpec

POWERSGD_STARTS = 2
"""Steps with uncompressed gradients. PyTorch accepts no fewer, as DDP rearranges its buckets after the first step."""


def detect_sync_option(wrapper: type) -> str:
    """Return the option of DDP that says whether buffers are broadcast in each step; PyTorch 2.13 renamed it."""
    names = ("forward_sync_buffers", "broadcast_buffers")
    return next(name for name in names if name in signature(wrapper).parameters)


SYNC_BUFFERS = detect_sync_option(DistributedDataParallel)

PATIENCE = timedelta(days=1)
"""
Timeout of processes that wait in a collective while another one reads images or evaluates. The run's time limit ends a
hang, as in the other frameworks; NCCL's own timeout is ten minutes.
"""


class PytorchDdp(TorchBackend):
    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        if spec.device_kind == "cuda" and not dist.is_nccl_available():
            raise UnsupportedError(
                f"PyTorch {torch.__version__} was built without NCCL, by which DDP exchanges on GPUs"
            )
        self.rank, self.num_processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        local_rank = int(os.environ["LOCAL_RANK"])
        bind_to_device_cores(local_rank, spec.cores_per_device)
        self._has_wrapper = spec.tier == "stock" or spec.num_gpus > 1 or spec.gradient_compression != "none"
        if not self._has_wrapper and spec.accumulate == 1:
            self.compile_mode = "reduce-overhead"
        self.set_up(spec, data, weights, local_rank)
        options = {"device_id": self.device} if self.is_cuda else {}
        if not dist.is_initialized():  # the parity gate does several tasks in one process
            dist.init_process_group("nccl" if self.is_cuda else "gloo", timeout=PATIENCE, **options)
        if self._has_wrapper:
            self._wrap([local_rank] if self.is_cuda else None)

    def _wrap(self, device_ids: list[int] | None) -> None:
        options: dict[str, Any] = {SYNC_BUFFERS: False}
        if self.spec.tier == "best":
            options["gradient_as_bucket_view"] = True
        self.network = DistributedDataParallel(self.network, device_ids, **options)
        if self.spec.gradient_compression == "fp16":
            self.network.register_comm_hook(None, fp16_compress_hook)
        elif self.spec.gradient_compression == "powersgd":
            options = {"matrix_approximation_rank": self.spec.powersgd_rank, "random_seed": self.spec.seed}
            state = PowerSGDState(None, start_powerSGD_iter=POWERSGD_STARTS, **options)
            self.network.register_comm_hook(state, powerSGD_hook)

    def without_exchange(self) -> AbstractContextManager:
        return self.network.no_sync() if self._has_wrapper else super().without_exchange()

    @torch.no_grad()
    def prepare_evaluation(self) -> None:
        """Give every process the mean of all running statistics, or the first process's."""
        if statistics := self.list_statistics():
            joined = running_statistics.join(statistics)
            if self.spec.eval_batchnorm == "first":
                dist.broadcast(joined, src=0)
            else:
                dist.all_reduce(joined)
                joined /= self.num_processes
            running_statistics.write(statistics, joined)

    def sum_over_ranks(self, value: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(value)
        return value

    def max_over_ranks(self, value: float) -> float:
        tensor = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tensor.item()

    def settings(self) -> dict[str, str]:
        """Return the settings. BatchNorm's running statistics stay local; evaluation uses their mean."""
        if not self._has_wrapper:
            return super().settings() | {"exchange": "none, one device"}
        bucket_mib, hook = self.network.bucket_bytes_cap / 2**20, self.spec.gradient_compression
        exchange = f"{dist.get_backend()}, buckets of {bucket_mib:g} MiB, compression {hook}"
        buffers = "broadcast in each step" if getattr(self.network, SYNC_BUFFERS) else "not broadcast"
        views = ", gradients are views of buckets" if self.network.gradient_as_bucket_view else ""
        if not self.spec.exchanges:
            exchange = "none, DistributedDataParallel.no_sync in each step"
        return super().settings() | {"exchange": f"{exchange}, buffers {buffers}{views}"}

    def close(self) -> None:
        """Delete DDP before the process group.

        If DDP were the last to hold the group, it would hold the GIL while gloo's threads end. Those may need the GIL
        to release the last step's tensors, and both would wait forever.
        """
        del self.network
        gc.collect()
        dist.destroy_process_group()


BACKEND = PytorchDdp
