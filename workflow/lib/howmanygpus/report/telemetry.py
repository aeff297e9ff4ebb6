"""Read the samples of a run: what its devices and hosts did, on the same clock as its events."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from howmanygpus.measure.host.samples import COLUMNS, WORDS

HOST = "host"
"""Device of the rows about a whole node."""
ACTIVITY = ("sm_active_frac", "tensor_active_frac", "dram_bandwidth_frac")
"""Columns of what the units of a GPU did."""
TEXTS = ("device", "throttle_reasons", "cores_frac")
"""Columns with words or with several numbers, separated by spaces."""


def read_telemetry(folder: Path, columns: Iterable[str] = COLUMNS) -> pd.DataFrame:
    """Return the samples of a run, one row per sample and device, in the order in which they were written.

    folder: of the run, with its telemetry.csv. The columns are those of measure.host.samples.COLUMNS: `time_s` and
    `wall_s` of the events are seconds on one clock; numbers that a sample lacks are nan, and texts are empty. The frame
    is empty if nothing was sampled, as in a run that was not started. Columns that an older file lacks are added empty.
    columns: those to read; each takes time.
    """
    wanted = list(columns)
    # Few texts occur in thousands of rows, so each is read once.
    types = {column: "category" if column in TEXTS else int if column == "node" else float for column in wanted}
    path = Path(folder) / "telemetry.csv"
    if not path.exists() or not path.stat().st_size:
        table = pd.DataFrame(columns=wanted)
    else:
        table = pd.read_csv(path, usecols=lambda column: column in types, dtype=types, low_memory=False)
    table = table.reindex(columns=wanted)
    texts = [column for column in wanted if column in TEXTS]
    table[texts] = table[texts].astype(object).fillna("")
    return table.astype({column: kind for column, kind in types.items() if column not in TEXTS})


def is_gpu(devices: pd.Series) -> pd.Series:
    """Return whether each device is a GPU or a part of one, and not a CPU device or a host."""
    return _begins_with(devices, ("GPU-", "MIG-"))


def is_cpu(devices: pd.Series) -> pd.Series:
    """Return whether each device is a CPU device, or all processes of a run on CPUs as records once had them."""
    return _begins_with(devices, ("cpu",))


def _begins_with(devices: pd.Series, prefixes: tuple[str, ...]) -> pd.Series:
    """Return whether each name begins with one of the prefixes. A few names occur in thousands of rows."""
    return devices.isin([name for name in devices.unique() if name.startswith(prefixes)])


def find_problem(record: dict) -> str | None:
    """Return why the samples of a run are incomplete; None if they are not. record: its run.json or attempt.json."""
    return record.get("telemetry", {}).get("problem")


def explain_missing(record: dict, columns: Iterable[str]) -> str | None:
    """Return why no device of a run gave any of some columns; None if one did, or if nobody asked for them.

    record: a run.json. The reason of the first device counts for all, which have the same driver.
    """
    found = [words.split(" (", 1) for each in record.get("telemetry", {}).get("missing", {}).values() for words in each]
    reasons = {name: rest[0].removesuffix(")") if rest else "" for name, *rest in found}
    missing = [reasons[WORDS[column]] for column in columns if WORDS[column] in reasons]
    return missing[0] or "no reason given" if len(missing) == len(list(columns)) else None


def lacks(record: dict, column: str) -> bool:
    """Whether a device of a run never gave a column, or nobody asked for it. record: a run.json.

    A text such as the reasons of throttling is empty in samples too if there are none.
    """
    if "telemetry" not in record:
        return True
    return any(
        words.split(" (")[0] == WORDS[column]
        for missing in record["telemetry"]["missing"].values()
        for words in missing
    )
