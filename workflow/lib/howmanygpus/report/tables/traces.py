"""
Every traced run: how long its devices ran nothing in the traced steps, and how much of it between the steps.

`busy_frac` is the part of the window in which a kernel ran, or with CPU devices an operator on any thread of the pool;
`copy_frac` that in which only copies from or to a GPU ran, and `idle_frac` the rest. They are means over the devices
of the first process. `gap_s_median` and `gap_s_max` are the seconds without a kernel around the end of a step.
`step_s_traced` and `step_s_measured` are the medians of the traced steps and of the run's measured steps: their ratio
is what the profiler costs. `trace` is the folder of the trace. Without a trace, `problem` says why.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from howmanygpus.paths import RUNS
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.disturbance import is_disturbed
from howmanygpus.report.outcomes import Outcome, read_outcomes
from howmanygpus.report.traces.activity import TraceError
from howmanygpus.report.traces.gaps import NUM_OPERATORS
from howmanygpus.report.traces.reading import read_window

READS = ("results",)
NEEDS = "trace"
IN_REPORT = True
CATEGORY = "More"
FOLDER = "trace"
OPERATORS = tuple(f"operator_{i}{suffix}" for i in range(1, NUM_OPERATORS + 1) for suffix in ("", "_frac"))
COLUMNS = (
    *IDENTITY,
    *("disturbed", "prefetch", "num_steps", "num_devices", "window_s", "step_s_traced", "step_s_measured"),
    *("busy_frac", "copy_frac", "idle_frac", "input_wait_frac", "gap_s_median", "gap_s_max"),
    *OPERATORS,
    *("problem", "trace"),
)


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per traced run that completed. results: the folder that holds `results/`."""
    rows = [describe_trace(outcome) for outcome in list_traced(plan, results)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def list_traced(plan: dict, results: Path) -> list[Outcome]:
    """Return the comparable runs that completed and were to be traced."""
    completed = [each for each in read_outcomes(plan, results) if each.has_run and each.status == "completed"]
    return [each for each in completed if each.record and "trace" in each.record and not each.protocol]


def describe_trace(outcome: Outcome) -> dict:
    record = outcome.record or {}
    row = outcome.identity | {"disturbed": is_disturbed(record), "prefetch": record["spec"]["prefetch"]}
    row["problem"] = record["trace"]["problem"]
    if row["problem"] is not None:
        return row
    row["trace"] = str(RUNS / outcome.path / FOLDER)
    try:
        window = read_window(outcome.folder / FOLDER, record["trace"]["file"], record["spec"]["device_kind"])
    except TraceError as error:
        return row | {"problem": str(error)}
    windows = [event for event in outcome.read_events() if event["event"] == "window" and event["phase"] == "train"]
    measured = [step_s for event in windows for step_s in event["steps_s"]]
    ranked = window.operators + [("", np.nan)] * (NUM_OPERATORS - len(window.operators))
    return row | {
        "num_steps": len(window.ends_s),
        "num_devices": len(window.devices),
        "window_s": window.window_s,
        "step_s_traced": np.median(np.diff(window.ends_s, prepend=0.0)),
        "step_s_measured": np.median(measured) if measured else None,
        "busy_frac": window.busy_frac,
        "copy_frac": window.copy_frac,
        "idle_frac": 1.0 - window.busy_frac - window.copy_frac,
        "input_wait_frac": window.input_wait_frac,
        "gap_s_median": np.median(window.gaps_s),
        "gap_s_max": max(window.gaps_s),
        **dict(zip(OPERATORS, [value for operator in ranked for value in operator], strict=True)),
    }
