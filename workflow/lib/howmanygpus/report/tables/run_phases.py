"""
The seconds of every completed run by phase, also of control runs; and how fast its loader and its processes were.

The phases and `other_s`, which is what the record does not name, add up to `wall_time_s`. `steps_s` are the measured
steps without their waits for input. Phases that a user's program did not report are empty, and their time is in
`other_s`. `loader_s_per_image` is the time that one worker of the shared loader takes for an image. `processes` and
`processes_s` name each process, as rank@host, and its own seconds of the measured windows without waits for others.
`straggle_frac` is how much longer than its mean step a step would take if it waited for the slowest of all processes
and each had the step times of the first one. It is empty for runs that exchange, because these times have the waits.
`is_sharded` is what a program said of itself.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.outcomes import read_outcomes
from howmanygpus.report.tables.helpers.controls import NO_EXCHANGE
from howmanygpus.report.tables.runs import list_measured, list_steps

READS = ("results", "runs")
PHASES = ("startup", "first_step", "warmup", "input_wait", "steps", "evaluation", "checkpoint", "other")
"""Phases of a run in the order of time."""
COLUMNS = (
    *(*IDENTITY, "protocol", "control", "images_per_s", "images_seen", "wall_time_s"),
    *(f"{phase}_s" for phase in PHASES),
    *("loader_s_per_image", "loader_workers", "cores_per_device", "num_processes"),
    *("processes", "processes_s", "straggle_frac", "is_sharded"),
)


def tabulate(plan: dict, runs: pd.DataFrame, results: Path = Path()) -> pd.DataFrame:
    """One row per completed run. runs: the table of that name; results: the folder that holds `results/`."""
    known = runs.set_index(IDENTITY)[["protocol", "control", "images_per_s"]]
    rows = []
    for outcome in read_outcomes(plan, results):
        if outcome.has_run and outcome.status == "completed" and outcome.record is not None:
            own = known.loc[tuple(outcome.identity.values())].to_dict()
            row = outcome.identity | own | describe_phases(outcome.record) | describe_workers(outcome.record)
            if outcome.control == NO_EXCHANGE:
                row["straggle_frac"] = measure_straggling(outcome.read_events(), count_replicas(outcome.record))
            rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"images_seen": "Int64"})


def count_replicas(record: dict) -> int:
    """Return how many processes train. A program starts others than the workflow knows of, one for each device."""
    return record["spec"]["num_gpus"] if "program" in record["spec"] else record["num_processes"]


def measure_straggling(events: list[dict], num_processes: int) -> float | None:
    """Return the expected longest of as many steps as processes over the mean step, minus 1; None without step times.

    events: those of the first process. Each step is drawn from its measured steps, independently for each process.
    """
    windows = list_measured(events)
    step_s = list_steps(windows) if windows else None
    if step_s is None or num_processes < 2:
        return None
    chances = np.diff((np.arange(len(step_s) + 1) / len(step_s)) ** num_processes)
    return float(np.sort(step_s) @ chances / step_s.mean() - 1)


def describe_phases(record: dict) -> dict:
    """Return the seconds of a run by phase. record: a run.json of a run that trained."""
    waited_s = record["data_wait_s"]
    phases = {
        "startup": record["init_s"],
        "first_step": record["compile_s"],
        "warmup": record["warmup_s"],
        "input_wait": waited_s,
        "steps": record["measured_s"] - (waited_s or 0.0),
        "evaluation": record["eval_s"],
        "checkpoint": record.get("checkpoint_s", 0.0),
    }
    other_s = record["wall_time_s"] - sum(seconds or 0.0 for seconds in phases.values())
    described = {f"{phase}_s": seconds for phase, seconds in (phases | {"other": other_s}).items()}
    return described | {"images_seen": record["images_seen"], "wall_time_s": record["wall_time_s"]}


def describe_workers(record: dict) -> dict:
    """Return the speed and number of a run's loader workers, and the seconds of its processes."""
    spec, processes = record["spec"], record["processes"]
    host = record["host"]["hostname"]
    timed = [process for process in processes if process.get("measured_s") is not None]
    return {
        "is_sharded": record.get("reported", {}).get("sharded"),
        "loader_s_per_image": record.get("loader_s_per_image"),
        "loader_workers": spec.get("loader_workers"),
        "cores_per_device": spec["cores_per_device"],
        "num_processes": record["num_processes"],
        "processes": " ".join(f"{process['rank']}@{process.get('hostname', host)}" for process in timed) or None,
        "processes_s": " ".join(f"{process['measured_s']:.6g}" for process in timed) or None,
    }
