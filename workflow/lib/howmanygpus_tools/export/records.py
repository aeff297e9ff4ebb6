"""
The records that all exporters write: one for each run that completed or diverged.

A record has `study`, `name`, `group`, `tags`, `started_at` (seconds since 1970), `status`, `config`, `summary` and
`epochs`. An epoch has its number as `step`, its `time` (seconds since 1970) and `metrics`, whose names are those that
the tools' users know: `train/loss`, `eval/accuracy`, `system/power_w`. Undefined values are left out.
"""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.base.secrets import hide_everywhere
from howmanygpus.paths import RUNS
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.settings_of_runs import PLACES, flatten
from howmanygpus.report.telemetry import HOST, read_telemetry

TRAINED = ("completed", "diverged")
EPOCH = {
    "train/loss": "loss",
    "train/seconds": "train_s",
    "train/images_per_s": "images_per_s",
    "train/data_wait_s": "data_wait_s",
    "eval/seconds": "eval_s",
}
"""Columns of the table `epochs`, by the names of the metrics."""
CLOCKS = ("first_step_s", "train_s", "eval_s")
"""Columns of the table `epochs` that together are the time of an epoch."""
SUMMARY = (
    *("images_per_s", "train_s", "wall_time_s", "init_s", "compile_s", "eval_s", "data_wait_frac", "peak_memory_gib"),
    *("images_seen", "quality_last", "quality_best", "cost", "device_hours"),
)
"""Columns of the table `runs`."""
VERSIONS = ("framework_version", "device_model", "driver_version", "git_commit", "parity")


def make_records(
    plan: dict[str, Any], runs: pd.DataFrame, epochs: pd.DataFrame, results: Path = Path()
) -> list[dict[str, Any]]:
    """Return the records of a study, in the order of its plan.

    plan: content of results/plans/{study}.json; runs, epochs: the tables of these names; results: the folder that holds
    `results/`.
    """
    trained = runs[runs["status"].isin(TRAINED)].set_index("run_dir", drop=False)
    by_run = dict(list(epochs.groupby(IDENTITY, dropna=False)))
    records = []
    for path, planned in plan["runs"].items():
        place = str(RUNS / path)
        if place in trained.index:
            run = trained.loc[place]
            own = by_run.get(tuple(run[key] for key in IDENTITY), epochs.iloc[:0]).sort_values("epoch")
            records.append(describe_run(run, planned["spec"], own, read_telemetry(results / place)))
    return records


def describe_run(run: pd.Series, spec: dict, epochs: pd.DataFrame, samples: pd.DataFrame) -> dict[str, Any]:
    """Return the record of a run. run: its row of `runs`; epochs: its rows of `epochs`; samples: its telemetry."""
    started_at = datetime.datetime.fromisoformat(run["started_at"]).timestamp()
    devices = f"{run['num_gpus']}x{run['device']}"
    config = {key: value for key, value in flatten(spec).items() if key not in PLACES}
    versions = {name: run[name] for name in VERSIONS if pd.notna(run[name])}
    described = []
    for row in epochs.to_dict("records"):
        metrics = {use_unit(name, run["unit"]): row[column] for name, column in EPOCH.items()}
        metrics |= {f"eval/{row['metric']}": row["quality"]}
        taken_s = sum(keep_known({name: row[name] for name in CLOCKS}).values())
        metrics |= average_samples(samples, row["wall_s"] - taken_s, row["wall_s"])
        step = {"step": int(row["epoch"]), "time": started_at + row["wall_s"]}
        described.append(step | {"metrics": keep_known(metrics)})
    return {
        "study": run["study"],
        "name": run["run_dir"].removeprefix(f"{RUNS.as_posix()}/").removeprefix(f"{run['study']}/"),
        "group": f"{run['framework']} {run['variant']} {devices} batch {run['per_device_batch_size']}",
        "tags": [run["framework"], run["variant"], run["precision"], devices],
        "started_at": started_at,
        "wall_time_s": float(run["wall_time_s"]),
        "status": run["status"],
        "config": hide_everywhere({key: value for key, value in config.items() if value is not None}) | versions,
        "summary": keep_known({use_unit(name, run["unit"]): run[name] for name in SUMMARY}),
        "epochs": described,
    }


def use_unit(name: str, unit: str) -> str:
    """Return the name of a metric for other tools, in which a program's runs count what it counts."""
    return name.replace("images", unit)


def average_samples(samples: pd.DataFrame, begin_s: float, end_s: float) -> dict[str, float]:
    """Return what the devices did in an epoch: mean utilisation, total power, memory of the fullest, temperature."""
    own = samples[(samples["time_s"] > begin_s) & (samples["time_s"] <= end_s) & (samples["device"] != HOST)]
    if own.empty:
        return {}
    devices = own.groupby(["node", "device"])
    return {
        "system/utilisation_frac": devices["utilisation_frac"].mean().mean(),
        "system/power_w": devices["power_w"].mean().sum(min_count=1),
        "system/memory_gib": own["memory_gib"].max(),
        "system/temperature_c": own["temperature_c"].max(),
    }


def keep_known(values: dict[str, Any]) -> dict[str, float]:
    """Return the values that are defined, as numbers."""
    return {name: float(value) for name, value in values.items() if pd.notna(value) and np.isfinite(float(value))}
