"""
The result of a study in one file.

A result has the decision, and each configuration with its raw repeats, medians and intervals, settings, machine,
versions and parity, so that nothing else is needed to compare it. It names no host and no place of a file, so that it
can be published.
"""

import math
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.report.answer.candidates import summarize
from howmanygpus.report.columns import BATCH, PLACE, SERIES, TASK, list_columns
from howmanygpus.report.places import hide_hosts, hide_places
from howmanygpus.report.published import is_fair
from howmanygpus.report.settings_of_runs import describe_settings

VERSION = 2
KEY = tuple(list_columns(TASK, SERIES, PLACE, BATCH, but=["device", "placement"]))
"""What two results are matched by. The machine is left out, so that machines can be compared."""
VALUES = ("images_per_s", "train_s", "wall_time_s", "quality_last", "peak_memory_gib", "cost")
CONSTANT = (
    *("framework_version", "device_model", "driver_version", "manifest_sha256", "parity", "git_commit"),
    *("python_version", "quality_metric", "currency"),
)
TEXTS = ("text", "run_next", "sentence", "remedy", "refusal")
"""Keys of a decision whose values are sentences, which may name hosts."""
LEFT_OUT = ("run_dirs", "facts")
"""Keys of a decision that name folders, and what its sentences are made of."""

Result = dict[str, Any]


def make_result(planned: pd.DataFrame, facts: dict[str, Any], plan: dict[str, Any] | None = None) -> Result:
    """Return the result of a study.

    planned: the table of all its runs; facts: see report.answer.facts; plan: content of results/plans/{study}.json,
    from which the settings come. The values of one repeat stand at the same place of each list.
    Devices of one name and of several models are several machines, each with configurations of its own.
    """
    runs, settings = planned[is_fair(planned)], describe_settings(plan) if plan else {}
    configurations = []
    for (*key, _), repeats in runs.groupby([*KEY, "device", _choose_models(runs)], sort=False, dropna=False):
        done = repeats[repeats["status"] == "completed"]
        configurations.append(
            {name: _plain(value) for name, value in zip([*KEY, "device"], key, strict=True)}
            | {"num_planned": len(repeats)}
            | {"statuses": repeats["status"].value_counts().to_dict()}
            | {name: sorted(set(done[name].dropna().astype(str))) for name in CONSTANT}
            | {name: [_plain(value) for value in done[name]] for name in VALUES}
            | {"summary": {name: summarize(done[name].astype(float)) for name in VALUES}}
            | {"settings": settings.get(repeats["run_dir"].iloc[0], {})}
            | {"seeds": [int(seed) for seed in done["seed"]], "disturbed": int(done["disturbed"].eq(True).sum())}
        )
    hosts = [name for column in ("hostname", "nodes") for names in planned[column].dropna() for name in names.split()]
    decision = _publish(facts, list(dict.fromkeys(hosts)))
    return {"version": VERSION, "decision": decision, "configurations": hide_places(configurations)}


def _publish(facts: Any, hosts: list[str], key: str = "") -> Any:
    """Return a decision without the folders of runs, and without hosts and places in its sentences."""
    if isinstance(facts, dict):
        return {name: _publish(each, hosts, name) for name, each in facts.items() if name not in LEFT_OUT}
    if isinstance(facts, list):
        return [_publish(each, hosts, key) for each in facts]
    return hide_places(hide_hosts(facts, hosts)) if isinstance(facts, str) and key in TEXTS else facts


def _choose_models(runs: pd.DataFrame) -> pd.Series:
    """Return the model of each run's device. A run that has not started has that of the others if they have one."""
    models = runs["device_model"].groupby(runs["device"])
    only = models.transform("first").where(models.transform("nunique") == 1)
    return runs["device_model"].astype(object).fillna(only).rename("machine")


def _plain(value: Any) -> Any:
    """Return a value of a table as JSON has it."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
