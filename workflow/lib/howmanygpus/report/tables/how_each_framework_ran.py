"""How each framework ran: the execution settings in force, read back from the framework, and the shell's variables."""

from pathlib import Path

import pandas as pd

from howmanygpus.report.columns import SERIES, STUDY, list_columns
from howmanygpus.report.outcomes import read_outcomes

READS = ("results",)
IS_MERGED = True
CATEGORY = "The same work?"
KEY = list_columns(STUDY, SERIES, but=["input"])
SETTINGS = (
    *("execution", "optimizer", "layout", "autotune", "tf32", "loss_scaling", "exchange"),
    *("allocator", "host_memory", "cudnn", "onednn", "threads"),
)
COLUMNS = (*KEY, "num_gpus", "num_runs", "batches_ahead", *SETTINGS, "variables")


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per set of settings of each configuration: device counts, number of runs and batches held ahead.

    A run with a record of an older version has no settings; its values are empty.
    """
    found: dict[tuple, list[tuple[int, int | None]]] = {}
    for outcome in read_outcomes(plan, results):
        if outcome.was_trained:
            configuration = tuple(outcome.identity[key] for key in KEY)
            record = outcome.record or {}
            counts = outcome.identity["num_gpus"], record.get("batches_ahead")
            found.setdefault((*configuration, *describe(record)), []).append(counts)
    rows = [
        (
            *key[: len(KEY)],
            list_distinct(devices),
            len(devices),
            list_distinct(ahead),
            *key[len(KEY) :],
        )
        for key, counts in found.items()
        for devices, ahead in [zip(*counts, strict=True)]
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def list_distinct(counts: tuple[int | None, ...]) -> str | None:
    """Return the distinct counts in ascending order; None if none is known."""
    return ", ".join(map(str, sorted({count for count in counts if count is not None}))) or None


def describe(record: dict) -> tuple:
    """Return the values of SETTINGS and the variables. record: a run.json."""
    found = record.get("settings", {})
    variables = " ".join(f"{name}={value}" for name, value in found.items() if name[0].isupper())
    return (*(found.get(name) for name in SETTINGS), variables or None)
