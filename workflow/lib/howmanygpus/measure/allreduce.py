"""
Measure how fast devices sum arrays, without any training: PyTorch's all-reduce over NCCL, or gloo on CPUs.

The arrays have fixed sizes, or one array has as many bytes as the gradients of a network. If each device keeps a part
of the parameters alone, a reduce-scatter of the gradients and two all-gathers of the parameters, for the forward and
for the backward pass, take the place of the all-reduce.

Called by the workflow, it starts one process per device, as a run would; called by those processes, it measures. They
leave what NCCL says about its transports, or the interfaces of gloo's sockets; no run is measured while NCCL does so.
"""

import argparse
import json
import os
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from howmanygpus.files import write_json_atomic
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.host.processes import bind_to_device_cores, die_with_parent, end_without_collecting
from howmanygpus.measure.launch.launch import lock_machine, run_processes
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.measure.spec import LaunchSpec

SIZES_MIB = (1, 16, 128)
NUM_WARMUP, NUM_MEASURED = 3, 10
DEADLINE_S = 600.0
NCCL_LOGS, SOCKETS = "nccl.*.log", "sockets.*.json"
"""What each process leaves in the folder: NCCL's messages, or the names of the interfaces of its sockets."""
WHAT: dict[str, Any] = {
    "study": "allreduce",
    "dataset": "none",
    "model": "none",
    "model_options": {},
    "framework": "pytorch_ddp",
    "family": "torch",
    "strategy": "ddp",
    "launcher": "per_device",
    "variant": "base",
    "input": "none",
    "precision": "fp32",
    "per_device_batch_size": 1,
    "accumulate": 1,
    "repeat": 1,
    "seed": 1,
}
"""The parts of the specification that do not depend on the devices."""


def measure(spec: LaunchSpec, sizes_mib: Sequence[float], folder: Path, is_sharded: bool = False) -> list[dict]:
    """Return the seconds of each all-reduce of float32 arrays, by size; the slowest process counts.

    sizes_mib: sizes of whole numbers of bytes that 4 divides. folder: where the interfaces of gloo are left.
    is_sharded: whether to time a reduce-scatter and two all-gathers instead.
    """
    import torch
    import torch.distributed as dist

    local_rank = int(os.environ["LOCAL_RANK"])
    bind_to_device_cores(local_rank, spec.cores_per_device)
    is_cuda = spec.device_kind == "cuda"
    device = torch.device("cuda", local_rank) if is_cuda else torch.device("cpu")
    if is_cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if is_cuda else "gloo", **({"device_id": device} if is_cuda else {}))
    rows, average = [], dist.ReduceOp.AVG if is_cuda else dist.ReduceOp.SUM

    def exchange(array: Any, part: Any) -> None:
        if not is_sharded:
            dist.all_reduce(array, op=average)
            return
        dist.reduce_scatter_tensor(part, array, op=average)
        for _ in range(2):
            dist.all_gather_into_tensor(array, part)

    for size_mib in sizes_mib:
        part = torch.ones(-(-round(size_mib * 2**18) // spec.num_gpus), device=device)
        number = len(part) * spec.num_gpus if is_sharded else round(size_mib * 2**18)
        array, seconds = torch.ones(number, device=device), []
        for _ in range(NUM_WARMUP + NUM_MEASURED):
            dist.barrier()
            if is_cuda:
                torch.cuda.synchronize()
            started = time.perf_counter()
            exchange(array, part)
            if is_cuda:
                torch.cuda.synchronize()
            elapsed = torch.tensor(time.perf_counter() - started, dtype=torch.float64, device=device)
            dist.all_reduce(elapsed, op=dist.ReduceOp.MAX)
            seconds.append(elapsed.item())
            array.fill_(1.0)
        rows.append({"size_mib": size_mib, "seconds": seconds[NUM_WARMUP:]})
    if not is_cuda:
        leave_interfaces(folder)
    dist.destroy_process_group()
    return rows


def make_nccl_tell(folder: Path) -> None:
    """Have NCCL write to a file of each process which transports it takes (NCCL user guide, NCCL_DEBUG)."""
    log = folder / NCCL_LOGS.replace("*", "%h.%p")
    os.environ |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV", "NCCL_DEBUG_FILE": str(log)}


def leave_interfaces(folder: Path) -> None:
    """Write the names of the network interfaces of this process's connections, without those to PyTorch's store."""
    names = {
        address.address: name
        for name, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    }
    store = int(os.environ["MASTER_PORT"])
    with suppress(psutil.Error, OSError):
        open_ones = [each for each in psutil.Process().net_connections("tcp") if each.raddr]
        used = {each.laddr.ip for each in open_ones if store not in (each.laddr.port, each.raddr.port)}
        found = sorted({names.get(address.removeprefix("::ffff:"), address) for address in used})
        write_json_atomic(folder / SOCKETS.replace("*", os.environ["RANK"]), {"interfaces": found})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", type=json.loads, help="JSON: device, device_kind and cores_per_device")
    parser.add_argument("--num-devices", type=int)
    parser.add_argument("--num-nodes", type=int)
    parser.add_argument("--placement", type=json.loads, default={}, help="JSON: see howmanygpus.measure.host.placement")
    parser.add_argument("--folder", type=Path, required=True, help="where the processes leave what they measured")
    parser.add_argument("--bytes", type=int, help="size of the only array, in place of the fixed sizes")
    parser.add_argument("--sharded", action="store_true", help="exchange as if each device kept a part of parameters")
    parser.add_argument("--measure", action="store_true", help="be one of the processes")
    arguments = parser.parse_args()
    die_with_parent()
    attempt, result = AttemptFolder(arguments.folder), arguments.folder / "allreduce.json"
    if arguments.measure:
        make_nccl_tell(arguments.folder)
        sizes_mib = [arguments.bytes / 2**20] if arguments.bytes else SIZES_MIB
        spec = LaunchSpec(**json.loads(attempt.spec.read_text()))
        rows = measure(spec, sizes_mib, arguments.folder, arguments.sharded)
        if os.environ["RANK"] == "0":
            medians = [row | {"median_s": statistics.median(row["seconds"])} for row in rows]
            write_json_atomic(result, {"sizes": medians, "is_sharded": arguments.sharded})
        end_without_collecting()
        return
    num_gpus, num_nodes = arguments.num_devices, arguments.num_nodes
    spec = LaunchSpec(**WHAT, **arguments.device, num_gpus=num_gpus, num_nodes=num_nodes, global_batch_size=num_gpus)
    placement = Placement.without_data(arguments.placement)
    write_json_atomic(attempt.spec, spec.to_dict())
    options = ["--measure", "--folder", str(arguments.folder)]
    options += ["--bytes", str(arguments.bytes)] if arguments.bytes else []
    options += ["--sharded"] if arguments.sharded else []
    with lock_machine(placement, f"the all-reduce of {arguments.num_devices} devices"):
        sys.exit(run_processes(spec, placement, attempt, "howmanygpus.measure.allreduce", options, DEADLINE_S))


if __name__ == "__main__":
    main()
