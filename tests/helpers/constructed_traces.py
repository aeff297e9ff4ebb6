"""Constructed traces in the formats of the profilers, whose busy parts and gaps are known."""

import gzip
import json
from pathlib import Path

from recorded_runs import write_varint

STEP_S, WAIT_S, SHIFT_S = 0.1, 0.03, 1000.0
"""Each step lasts STEP_S and begins with a wait for input of WAIT_S. The trace's clock is ahead by SHIFT_S."""
MARK = "howmanygpus_step_"
Call = tuple[str, str, float, float]
"""Lane, name, begin and end in seconds of the loop's clock."""


def write_steps(folder: Path, num_steps: int, lead: int = 1, late_s: float = 0.0, has_input: bool = True) -> list[dict]:
    """Write steps.json for steps of STEP_S, whose ends the loop saw late; return the steps."""
    steps = [
        {
            "began_s": i * STEP_S + WAIT_S,
            "ready_s": i * STEP_S + WAIT_S if has_input else None,
            "finished_s": (i + 1) * STEP_S + late_s,
        }
        for i in range(num_steps)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "steps.json").write_text(json.dumps({"mark": MARK, "lead_steps": lead, "steps": steps}))
    return steps


def repeat(calls: list[Call], num_steps: int) -> list[Call]:
    """Return the calls of one step, which begins at 0, in every step."""
    return [
        (lane, name, i * STEP_S + start, i * STEP_S + end) for i in range(num_steps) for lane, name, start, end in calls
    ]


def list_marks(steps: list[dict]) -> list[Call]:
    return [("main", f"{MARK}{i}", step["began_s"], step["began_s"] + 1e-4) for i, step in enumerate(steps, start=1)]


def write_chrome(folder: Path, steps: list[dict], calls: dict[str, list[Call]], device: int = 0) -> str:
    """Write a trace as PyTorch does, and return its name. calls: by category."""
    marks = {"user_annotation": list_marks(steps)}
    events = [
        {
            **{"ph": "X", "cat": category, "name": name, "pid": 1, "tid": lane},
            **{"ts": (start + SHIFT_S) * 1e6, "dur": (end - start) * 1e6, "args": {"device": device}},
        }
        for category, listed in (calls | marks).items()
        for lane, name, start, end in listed
    ]
    with gzip.open(folder / "trace.json.gz", "wt") as file:
        json.dump({"traceEvents": [{"ph": "i", "name": "start", "ts": 0, "pid": 1, "tid": 1}, *events]}, file)
    return "trace.json.gz"


def write_mxnet(folder: Path, steps: list[dict], calls: dict[str, list[Call]]) -> str:
    """Write a trace as MXNet does, and return its name. calls: by device, such as `gpu/0`; lanes are threads."""
    names = [*calls, "operator", "howmanygpus"]
    events = [{"ph": "M", "name": "process_name", "pid": i, "args": {"name": name}} for i, name in enumerate(names)]
    listed = [(i, "operator", "BE", call) for i, own in enumerate(calls.values()) for call in own]
    # Each operation is there twice: on its device, and once more among all operations.
    listed += [(names.index("operator"), "operator", "be", call) for own in calls.values() for call in own]
    listed += [(names.index("howmanygpus"), "howmanygpus", "be", call) for call in list_marks(steps)]
    for pid, category, phases, (lane, name, *limits) in listed:
        shared = {"cat": category, "name": name, "pid": pid, "tid": lane}
        events += [
            {**shared, "ph": phase, "ts": round((at + SHIFT_S) * 1e6)} for phase, at in zip(phases, limits, strict=True)
        ]
    with gzip.open(folder / "trace.json.gz", "wt") as file:
        json.dump({"displayTimeUnit": "ms", "traceEvents": events}, file)
    return "trace.json.gz"


def number(field: int, value: int) -> bytes:
    return write_varint(field << 3) + write_varint(value % 2**64)


def message(field: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return write_varint(field << 3 | 2) + write_varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    return message(field, value.encode())


def make_plane(name: str, calls: list[Call], xla: tuple[str, ...] = ()) -> bytes:
    """Return a plane of an XSpace, with a line for each lane. xla: the names of XLA's operators on a CPU."""
    numbers = {each: i for i, each in enumerate(dict.fromkeys(call[1] for call in calls), start=1)}
    table = [message(4, number(1, i), message(2, number(1, i), text(2, each))) for each, i in numbers.items()]
    statistics = [
        message(5, number(1, i), message(2, number(1, i), text(2, each))) for i, each in ((8, "hlo_op"), (9, "flops"))
    ]
    lines = []
    for lane in dict.fromkeys(call[0] for call in calls):
        own = [call for call in calls if call[0] == lane]
        first = round((SHIFT_S + own[0][2]) * 1e9)
        events = [
            message(
                4,
                number(1, numbers[each]),
                number(2, round((SHIFT_S + start) * 1e12) - first * 1000),
                number(3, round((end - start) * 1e12)),
                message(4, number(1, 9), write_varint(2 << 3 | 1) + bytes(8)),
                *([message(4, number(1, 8), text(5, each))] if each in xla else []),
            )
            for _, each, start, end in own
        ]
        lines.append(message(3, number(1, 7), text(2, lane), number(3, first), *events))
    return message(1, number(1, 1), text(2, name), *lines, *table, *statistics)


def write_xspace(folder: Path, planes: dict[str, list[Call]], xla: tuple[str, ...] = ()) -> str:
    """Write a trace as TensorFlow and JAX do, and return its name. planes: calls by the name of the plane."""
    with gzip.open(folder / "trace.xplane.pb.gz", "wb") as file:
        file.write(b"".join(make_plane(name, calls, xla) for name, calls in planes.items()) + text(4, "host"))
    return "trace.xplane.pb.gz"
