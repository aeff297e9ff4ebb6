"""
Measure how fast each device of a node is, without any training: a fixed matrix product and a fixed copy of memory.

All devices work at the same time, as in a run, so that each has the heat, the power supply and the memory bus of a run.
They work for a fixed time and not for a fixed number of products, so that none ends early and leaves the others its
share. A GPU is measured with PyTorch, a CPU device with numpy on its own cores.
"""

import argparse
import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from howmanygpus.files import write_json_atomic
from howmanygpus.measure.around.health import read_gpu
from howmanygpus.measure.host.devices import read_cpu_model
from howmanygpus.measure.host.gpus import list_gpu_uuids
from howmanygpus.measure.host.processes import die_with_parent, list_cores, share_cores
from howmanygpus.measure.records import now

PATIENCE_S = 120.0
"""How long the kernel may take on all nodes. Most of it is the import of PyTorch on a cold file system."""
PRODUCT_S, COPY_S, CHUNK_S = 0.5, 0.2, 0.02
"""Time of the products and of the copies of each device, and the least time of repeats that are timed together.

In so short a time devices do not become hot. What heat does to them is in the telemetry of the runs.
"""
DEADLINE_S = 60.0
"""How long a device waits for the others, which may still load PyTorch."""
SIZE = {"cpu": 1024, "cuda": 8192}
"""Rows and columns of the matrices: float32 on a CPU (4 MiB each), float16 on a GPU (128 MiB each)."""
COPIED_BYTES = {"cpu": 2**25, "cuda": 2**28}
"""Size of the array that is copied."""
SEEN_ON_GPU = ("temperature_c", "sm_clock_mhz", "sm_clock_max_mhz", "sm_clock_default_mhz", "throttle_reasons")
"""What NVML says while the GPUs multiply."""


@dataclass(frozen=True)
class DeviceUnderTest:
    """A GPU or a part of one by its UUID, or a CPU device by the name of its cores. cores: empty on a GPU."""

    name: str
    cores: tuple[int, ...] = ()


def list_devices(kind: str, cores_per_device: int, num_devices: int, bind_cores: bool = True) -> list[DeviceUnderTest]:
    """Return the devices of this node that this process may use.

    CPU devices have the cores that runs get: num_devices groups, or as many as there are cores for; without bind_cores
    the only device has all cores.
    """
    if kind == "cuda":
        return [DeviceUnderTest(uuid) for uuid in list_gpu_uuids()]
    cores = list_cores()
    count = min(num_devices, len(cores) // cores_per_device)
    groups = share_cores(cores, [None] * count, cores_per_device) if bind_cores else [cores]
    return [DeviceUnderTest(f"cores {' '.join(map(str, group))}", tuple(group)) for group in groups]


def measure_devices(kind: str, devices: list[DeviceUnderTest]) -> list[dict[str, Any]]:
    """Return name, rates and state of each device, or the `problem` because of which it has no rates."""
    # A child has no threads of its parent, so that numpy starts its own there. PyTorch is loaded once for all GPUs, and
    # looks for them in the child.
    fork = multiprocessing.get_context("fork")
    if kind == "cuda":
        import torch  # noqa: F401
    barrier, working = fork.Barrier(len(devices) + 1), []
    for device in devices:
        receiver, sender = fork.Pipe(duplex=False)
        process = fork.Process(target=work, args=(kind, device, barrier, sender), daemon=True)
        process.start()
        working.append((device, process, receiver))
        sender.close()
    barrier.wait(DEADLINE_S)
    time.sleep(PRODUCT_S / 2)
    seen = {device.name: read_gpu(device.name)[0] if kind == "cuda" else {} for device in devices}
    found = []
    for device, process, receiver in working:
        try:
            rates = receiver.recv()
        except EOFError:
            process.join()
            rates = {"problem": f"its process ended with status {process.exitcode}"}
        state = {key: value for key, value in seen[device.name].items() if key in SEEN_ON_GPU}
        model = read_cpu_model() if kind == "cpu" else seen[device.name].get("name")
        found.append({"device": device.name, "model": model, "measured_at": now(), **rates, **state})
    return found


def work(kind: str, device: DeviceUnderTest, barrier: Barrier, sender: Connection) -> None:
    """Measure one device in a process of its own, at the same time as the others."""
    die_with_parent()
    try:
        prepare = prepare_gpu if kind == "cuda" else prepare_cores
        multiply, copy, wait = prepare(device)
        chunks = [find_chunk(operate, wait) for operate in (multiply, copy)]
    except Exception as error:
        barrier.wait(DEADLINE_S)
        sender.send({"problem": f"{type(error).__name__}: {error}"[:300]})
        return
    barrier.wait(DEADLINE_S)
    used_s, began = time.process_time(), time.monotonic()
    product_s = time_repeats(multiply, wait, chunks[0], PRODUCT_S)
    copy_s = time_repeats(copy, wait, chunks[1], COPY_S)
    rates = {
        # One multiply-add counts as two operations.
        "product_tflop_per_s": round(2 * SIZE[kind] ** 3 / product_s / 1e12, 5),
        # Each byte is read and written.
        "copy_gib_per_s": round(2 * COPIED_BYTES[kind] / copy_s / 2**30, 4),
    }
    if kind == "cpu":
        busy_s, elapsed_s = time.process_time() - used_s, time.monotonic() - began
        rates["cores_frac"] = round(busy_s / (elapsed_s * len(device.cores)), 4)
    sender.send(rates)


Operation = Callable[[], Any]


def prepare_gpu(device: DeviceUnderTest) -> tuple[Operation, Operation, Operation]:
    """Return functions that multiply, copy, and wait for the GPU."""
    os.environ["CUDA_VISIBLE_DEVICES"] = device.name
    import torch

    gpu, size = torch.device("cuda", 0), SIZE["cuda"]
    torch.manual_seed(1)
    # Zeros would take less power.
    left, right = (torch.randn(size, size, device=gpu, dtype=torch.float16) for _ in range(2))
    product = torch.empty_like(left)
    source = torch.ones(COPIED_BYTES["cuda"], device=gpu, dtype=torch.uint8)
    target = torch.empty_like(source)
    return lambda: torch.mm(left, right, out=product), lambda: target.copy_(source), torch.cuda.synchronize


def prepare_cores(device: DeviceUnderTest) -> tuple[Operation, Operation, Operation]:
    """Return functions that multiply, copy, and wait for nothing, for this process, which is bound to the cores."""
    os.sched_setaffinity(0, device.cores)
    # The libraries that numpy may be built with read these when they are loaded.
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    os.environ |= dict.fromkeys(names, str(len(device.cores)))
    import numpy as np

    random, size = np.random.default_rng(1), SIZE["cpu"]
    left, right = (random.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    product = np.empty_like(left)
    source = np.ones(COPIED_BYTES["cpu"], np.uint8)
    target = np.empty_like(source)
    return lambda: np.matmul(left, right, out=product), lambda: np.copyto(target, source), lambda: None


def find_chunk(operate: Operation, wait: Operation) -> int:
    """Return how many repeats take CHUNK_S, which also warms up the device."""
    count = 1
    while True:
        wait()
        began = time.perf_counter()
        for _ in range(count):
            operate()
        wait()
        if time.perf_counter() - began >= CHUNK_S:
            return count
        count *= 2


def time_repeats(operate: Operation, wait: Operation, chunk: int, duration_s: float) -> float:
    """Return the seconds of one repeat: the median over chunks, so that a short disturbance has no effect."""
    seconds, ends = [], time.perf_counter() + duration_s
    wait()
    while (began := time.perf_counter()) < ends:
        for _ in range(chunk):
            operate()
        wait()
        seconds.append((time.perf_counter() - began) / chunk)
    return statistics.median(seconds)


def name_program(kind: str) -> str:
    """Return what computes which product, because only rates of the same one are compared."""
    if kind == "cuda":
        import torch

        return f"torch {torch.__version__}, float16 {SIZE[kind]}"
    import numpy as np

    return f"numpy {np.__version__}, float32 {SIZE[kind]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--cores-per-device", type=int, required=True)
    parser.add_argument("--num-devices", type=int, required=True, help="CPU devices of the node")
    parser.add_argument("--all-cores", action="store_true", help="all cores are one device, because no core is bound")
    parser.add_argument("--folder", type=Path, required=True, help="folder for a JSON file with the name of this node")
    arguments = parser.parse_args()
    die_with_parent()
    # A launcher that no longer waits can kill srun, whose step would go on beside the run.
    signal.alarm(round(PATIENCE_S))
    number = (arguments.cores_per_device, arguments.num_devices)
    devices = list_devices(arguments.kind, *number, not arguments.all_cores)
    hostname = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    found = measure_devices(arguments.kind, devices)
    record = {"hostname": hostname, "kind": arguments.kind, "cores_per_device": arguments.cores_per_device}
    record |= {"program": name_program(arguments.kind), "devices": found}
    write_json_atomic(arguments.folder / f"{hostname}.json", record)


if __name__ == "__main__":
    main()
