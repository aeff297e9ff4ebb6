"""
Traces in Chrome's format ("Trace Event Format", Google 2016), as PyTorch and MXNet write them; times in microseconds.

PyTorch names the category of each event: operators of the host are `cpu_op`, and CUPTI adds `kernel`, `gpu_memset` and
`gpu_memcpy` with the number of the device. MXNet's engine has a process of the trace for each of its devices.
"""

import gzip
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from howmanygpus.report.traces.activity import HOST, Activity, TraceError

GPU_WORK, GPU_COPIES, HOST_WORK, MXNET_WORK = ("kernel", "gpu_memset"), ("gpu_memcpy",), ("cpu_op",), ("operator",)
MXNET_DEVICE = re.compile(r"(cpu|gpu)\b.*/(\d*)")
MXNET_COPY, MXNET_NO_WORK = "Copy", ("DeleteVariable", "WaitForVar")
"""Beginning of the names of copies, and operations of the engine's own, which wait for arrays and free them."""


def read_chrome(path: Path, mark: str) -> Activity:
    """Read a `.json.gz`. mark: beginning of the names of the marks of steps. Raises TraceError if it is damaged."""
    try:
        with gzip.open(path, "rt", errors="replace") as file:
            content = json.load(file)
    except (OSError, EOFError, zlib.error, json.JSONDecodeError) as error:
        raise TraceError(f"{path.name} is not a trace: {error}") from None
    events = content["traceEvents"] if isinstance(content, dict) else content
    activity = Activity()
    processes = {
        event["pid"]: event["args"]["name"]
        for event in events
        if event.get("ph") == "M" and event.get("name") == "process_name"
    }
    for event in join_begins(events):
        start_s, name, category = event["ts"] / 1e6, event["name"], event.get("cat")
        end_s, lane = start_s + event.get("dur", 0.0) / 1e6, f"{event['pid']} {event['tid']}"
        if name.startswith(mark):
            number = int(name.removeprefix(mark))
            activity.marks[number] = min(start_s, activity.marks.get(number, start_s))
        elif category in GPU_WORK:
            activity.devices[f"gpu{event['args']['device']}"].work[lane].add(name, start_s, end_s)
        elif category in GPU_COPIES:
            activity.devices[f"gpu{event['args']['device']}"].copies[lane].add(name, start_s, end_s)
        elif category in HOST_WORK:
            activity.devices[HOST].work[lane].add(name, start_s, end_s)
        elif category in MXNET_WORK and name not in MXNET_NO_WORK:
            found = MXNET_DEVICE.fullmatch(str(processes.get(event["pid"], "")))
            if found:
                is_gpu = found[1] == "gpu"
                device = activity.devices[f"gpu{found[2]}" if is_gpu else HOST]
                kind = device.copies if is_gpu and name.startswith(MXNET_COPY) else device.work
                kind[lane].add(name, start_s, end_s)
    activity.keep_gpus()
    return activity


def join_begins(events: list[dict]) -> Iterator[dict]:
    """Yield complete events. A begin (`B`, or `b` on no thread) is joined with the end of the same name."""
    begun: dict[tuple, list[dict]] = defaultdict(list)
    for event in events:
        phase, key = event.get("ph"), (event.get("pid"), event.get("tid"), event.get("name"))
        if phase == "X":
            yield event
        elif phase in ("B", "b"):
            begun[key].append(event)
        elif phase in ("E", "e") and begun[key]:
            begin = begun[key].pop()
            yield begin | {"dur": event["ts"] - begin["ts"]}
