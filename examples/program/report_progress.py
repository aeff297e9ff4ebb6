"""
Report the progress of a training program to howmanygpus. Copy this file beside your program; it needs nothing else.

    from report_progress import report
    report(step=0)                                # after start-up, before the first step
    report(step=10, samples=640)                  # steps done so far, and samples of all devices
    report(epoch=1, step=90, metric={"accuracy": 0.9})   # after an evaluation that began right after step 90
    report(checkpoint="begin")                    # after a report of a step, and checkpoint="end" when it is written

Report when the device has done the steps, for example after reading a loss. Further keys: loss (a loss that is not
finite ends the run as diverged), status ("diverged", "out_of_memory" or "unsupported", with reason), versions
({"torch": torch.__version__}), and once parameters and flops_per_sample, both of the whole model, and sharded (whether
each device keeps only a part of the parameters). Without howmanygpus nothing is written.

With `diagnose: true` the program is started again for control runs, in which it leaves a part of its work out:

    from report_progress import control, resident, stop_exchange
    loader = resident(loader)                     # in the control run, its first batch again and again
    stop_exchange(model)                          # PyTorch: after DistributedDataParallel or fully_shard
    if control("no_exchange"): ...                # what another library needs; or control("resident_input")

Let all processes report, not the first one alone: in a run without exchange, each may be the slow one.
"""

import functools
import itertools
import json
import os
import socket
import time


def report(rank=None, **values):
    """Write a report. rank: number of this process, if the variable RANK does not have it."""
    path, rank = os.environ.get("HOWMANYGPUS_REPORT"), str(rank if rank is not None else os.environ.get("RANK", "0"))
    if path and rank != "0":
        # Only control runs compare processes.
        host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        path = f"{path}.rank{rank}@{host}" if os.environ.get("HOWMANYGPUS_CONTROL") else None
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({**values, "time": time.time()}) + "\n")


@functools.cache
def control(name):
    """Whether this run is to leave a part of its work out: "resident_input" or "no_exchange". Ask if you can do it."""
    is_asked = os.environ.get("HOWMANYGPUS_CONTROL") == name
    if is_asked:
        report(control=name)
    return is_asked


def is_due(step, every):
    """Whether a step is to be reported: all of the first ten, by which strategies are compared, and then every few."""
    return step <= 10 or step % every == 0


def count_parameters(model):
    """Return the number of parameters that a model of PyTorch trains."""
    return sum(each.numel() for each in model.parameters() if each.requires_grad)


class _Resident:
    def __init__(self, loader):
        self._loader, self._batch = loader, None

    def __iter__(self):
        if self._batch is None:
            self._batch = next(iter(self._loader))
        number = len(self._loader) if hasattr(self._loader, "__len__") else None
        return itertools.repeat(self._batch) if number is None else itertools.repeat(self._batch, number)

    def __len__(self):
        return len(self._loader)

    def __getattr__(self, name):
        return getattr(self._loader, name)


def resident(loader):
    """Return a loader, or in a control run with resident input its first batch as often as it has batches."""
    return _Resident(loader) if control("resident_input") else loader


def stop_exchange(model):
    """In a control run without exchange, have DistributedDataParallel and fully_shard (FSDP) exchange nothing.

    DDP adds up gradients as in no_sync(). FSDP gathers all parameters once and keeps them, which takes the memory of
    the whole model, and its optimizer updates none, so that its time counts as exchange. FullyShardedDataParallel
    (FSDP 1) cannot do so, which ends the control run with that reason.
    """
    if not control("no_exchange"):
        return
    from torch.nn.parallel import DistributedDataParallel

    if any(type(part).__name__ == "FullyShardedDataParallel" for part in model.modules()):
        cannot = (
            "FullyShardedDataParallel (FSDP 1) gathers its parameters in each step; fully_shard (FSDP 2) can keep them"
        )
        report(status="unsupported", reason=cannot)
    DistributedDataParallel.require_backward_grad_sync = property(lambda self: False, lambda self, value: None)
    for part in model.modules():
        if hasattr(part, "set_requires_gradient_sync"):
            part.set_requires_gradient_sync(False, recurse=False)
            part.set_reshard_after_forward(False, recurse=False)
            part.set_reshard_after_backward(False, recurse=False)
