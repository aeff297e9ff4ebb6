"""How each framework ran: the execution settings in force, read back from the framework, and the shell's variables."""

from pathlib import Path

import pandas as pd

from howmanygpus.report.outcomes import read_outcomes

READS = ("results",)
IS_MERGED = True
CELL = ("study", "framework", "variant", "precision", "device")
SETTINGS = (
    *("execution", "optimizer", "layout", "autotune", "tf32", "loss_scaling", "exchange"),
    *("allocator", "host_memory", "cudnn", "onednn", "threads"),
)
COLUMNS = (*CELL, "num_gpus", "num_runs", *SETTINGS, "variables")


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per set of settings of each configuration: the device counts and the number of runs that had it.

    A run that the record of an older version describes has no settings, and its cells are empty.
    """
    counts: dict[tuple, list[int]] = {}
    for outcome in read_outcomes(plan, results):
        if outcome.was_trained:
            cell = tuple(outcome.identity[key] for key in CELL)
            counts.setdefault((*cell, *describe(outcome.record or {})), []).append(outcome.identity["num_gpus"])
    rows = [
        (*key[: len(CELL)], ", ".join(map(str, sorted(set(found)))), len(found), *key[len(CELL) :])
        for key, found in counts.items()
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def describe(record: dict) -> tuple:
    """Return the values of SETTINGS and the variables. record: a run.json."""
    found = record.get("settings", {})
    variables = " ".join(f"{name}={value}" for name, value in found.items() if name[0].isupper())
    return (*(found.get(name) for name in SETTINGS), variables or None)
