"""
Horovod with PyTorch: one process per device, started by horovodrun; NCCL on GPUs, gloo on CPUs.

BatchNorm is local to each process; evaluation uses the mean of the processes' running statistics. The constructor has
what a user of Horovod adds to a PyTorch program: init, the choice of a device, the first process's weights, the
optimizer.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import horovod
import horovod.torch as hvd
import numpy as np
import torch
from horovod.torch import mpi_ops

from howmanygpus.measure.frameworks.horovod import describe_exchange, join
from howmanygpus.measure.frameworks.number_formats import NumberFormats
from howmanygpus.measure.frameworks.torch import running_statistics
from howmanygpus.measure.frameworks.torch.family import TorchBackend
from howmanygpus.measure.host.processes import bind_to_device_cores
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.spec import RunSpec

COMPRESSIONS = {"none": hvd.Compression.none, "fp16": hvd.Compression.fp16}


class HorovodPytorch(TorchBackend):
    def __init__(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], learning_rates: np.ndarray):
        join(spec)
        hvd.init()
        self.rank, self.num_processes = hvd.rank(), hvd.size()
        bind_to_device_cores(hvd.local_rank(), spec.cores_per_device)
        self.set_up(spec, data, weights, hvd.local_rank())
        # Horovod refuses tensors that are not contiguous. The images stay in channels_last under the `best` tier.
        self.network.to(memory_format=torch.contiguous_format)
        hvd.broadcast_parameters(self.network.state_dict(), root_rank=0)
        if not spec.exchanges:
            return
        # broadcast_optimizer_state would take a step with zero gradients to create a new optimizer's state. With weight
        # decay that step changes the weights, and it leaves Adam a step ahead.
        compression, names = COMPRESSIONS[spec.gradient_compression], self.network.named_parameters()
        options = {"compression": compression, "backward_passes_per_step": spec.accumulate}
        self.optimizer = hvd.DistributedOptimizer(self.optimizer, named_parameters=names, **options)

    @contextmanager
    def watch_exchange(self, numbers: NumberFormats) -> Iterator[None]:
        usual = mpi_ops._allreduce_async

        def record(tensor, *arguments, **options):
            numbers.exchange(str(tensor.dtype).removeprefix("torch."), tensor.numel() * tensor.element_size())
            return usual(tensor, *arguments, **options)

        mpi_ops._allreduce_async = record
        try:
            yield
        finally:
            mpi_ops._allreduce_async = usual

    def step_optimizer(self) -> None:
        """Update the weights. In fp16 the gradients are exchanged first, so that all processes skip the same steps."""
        if not (self.scaler.is_enabled() and self.spec.exchanges):
            return super().step_optimizer()
        self.optimizer.synchronize()
        self.scaler.unscale_(self.optimizer)
        with self.optimizer.skip_synchronize():
            super().step_optimizer()

    @torch.no_grad()
    def prepare_evaluation(self) -> None:
        """Give every process the mean of all running statistics, or the first process's."""
        if statistics := self.list_statistics():
            joined = running_statistics.join(statistics)
            if self.spec.eval_batchnorm == "first":
                joined = hvd.broadcast(joined, root_rank=0)
            else:
                joined = hvd.allreduce(joined, op=hvd.Average)
            running_statistics.write(statistics, joined)

    def sum_over_ranks(self, value: torch.Tensor) -> torch.Tensor:
        return hvd.allreduce(value, op=hvd.Sum)

    def max_over_ranks(self, value: float) -> float:
        return hvd.allreduce(torch.tensor(value, dtype=torch.float64), op=hvd.Max).item()

    def versions(self) -> dict[str, str]:
        return {"horovod": horovod.__version__, **super().versions()}

    def settings(self) -> dict[str, str]:
        return super().settings() | {"exchange": describe_exchange(hvd, self.spec)}

    def close(self) -> None:
        hvd.shutdown()


BACKEND = HorovodPytorch
