"""Reads the trace of a run, whatever profiler wrote it."""

import json
from pathlib import Path

from howmanygpus.report.traces.activity import Activity, TraceError
from howmanygpus.report.traces.chrome import read_chrome
from howmanygpus.report.traces.gaps import TracedWindow, find_gaps
from howmanygpus.report.traces.xspace import read_xspace

READERS = {".json.gz": read_chrome, ".xplane.pb.gz": read_xspace}


def read_window(folder: Path, file: str, device_kind: str) -> TracedWindow:
    """Read the folder `trace` of a run. file: the name of its trace. Raises TraceError, with the reason, if it cannot.

    device_kind: `cpu` or `cuda`.
    """
    try:
        seen = json.loads((folder / "steps.json").read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise TraceError(f"steps.json: {error}") from None
    read = READERS[file.removeprefix("trace")]
    activity: Activity = read(folder / file, seen["mark"])
    if device_kind == "cuda" and not any(name.startswith("gpu") for name in activity.devices):
        raise TraceError("the trace has no kernel of a GPU")
    return find_gaps(activity, seen)
