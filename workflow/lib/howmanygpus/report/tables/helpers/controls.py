"""The repeats of a configuration and of its control runs, and what these say about its processes."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from howmanygpus.measure.spec import RESIDENT
from howmanygpus.report.columns import BATCH, CONFIGURATION, PLACE, SERIES, list_columns
from howmanygpus.report.published import is_control, is_fair

RESIDENT_INPUT, NO_EXCHANGE, NO_EVALUATION = "resident_input", "no_exchange", "no_evaluation"
"""Values of the column `control` of the table `runs`."""
SHARED = [name for name in CONFIGURATION if name not in ("variant", "input")]
"""Columns that a control has in common with the run that it repeats."""


class Repeats:
    """The repeats of configurations, by what they leave out of their work. Control runs repeat the first variant."""

    def __init__(self, plan: dict, runs: pd.DataFrame, phases: pd.DataFrame, utilisation: pd.DataFrame | None = None):
        """runs, phases, utilisation: the tables `runs`, `run_phases` and `utilisation`."""
        names = [*list_columns(SERIES, PLACE, BATCH), "repeat"]
        self._runs = runs
        for table in (phases, *(() if utilisation is None else (utilisation,))):
            columns = [name for name in table if name not in self._runs or name in names]
            self._runs = self._runs.merge(table[columns], on=names, how="left")
        self.has_controls = bool(is_control(runs).any())
        fair, controls = self._runs[is_fair(self._runs)], self._runs[is_control(self._runs)]
        self.first_variant = next(iter([*plan["config"].get("variants", ()), *fair["variant"]]), "")
        # One resident batch takes the place of all inputs.
        inputs = controls["input"].where(controls["control"] != RESIDENT_INPUT, RESIDENT)
        self._fair = dict(list(fair.groupby(CONFIGURATION, sort=False)))
        controls = controls.assign(input=inputs).groupby(["control", "input", *SHARED], sort=False)
        self._controls = dict(list(controls))

    def find(self, row: pd.Series, control: str = "") -> pd.DataFrame:
        """Return all planned repeats of a configuration, or of one of its controls."""
        if not control:
            return self._fair.get(tuple(row[CONFIGURATION]), self._runs[:0])
        given = RESIDENT if control == RESIDENT_INPUT else row["input"]
        if row["variant"] != self.first_variant:
            return self._runs[:0]
        return self._controls.get((control, given, *row[SHARED]), self._runs[:0])


def is_independent(row: pd.Series) -> bool:
    """Return whether each device of a configuration does a run of its own."""
    return bool(row.get("independent") == 1)


def time_images(runs: pd.DataFrame) -> np.ndarray:
    """Return the device-seconds per image of each repeat with a rate."""
    rated = runs[runs["images_per_s"].notna()]
    return (rated["num_gpus"] / rated["images_per_s"]).to_numpy(float)


@dataclass(frozen=True)
class Slowest:
    """The slowest process of a configuration. name: rank@host, or all@host of a slow node. excess: see find_slowest.

    is_slow: whether it is slower by more than twice the standard deviation of one process between repeats.
    """

    name: str
    excess: np.ndarray
    is_slow: bool


def find_slowest(runs: pd.DataFrame) -> Slowest | None:
    """Return the slowest process, and the part of its time by which it exceeds the faster half, by repeat.

    The slowest of equal processes is always slower than the others. Which is the slowest, and which are the faster
    half, is therefore taken from the other repeats, so that chance has no effect on the mean. With one repeat, or if
    repeats had other hosts, it is taken from the same repeat. None without the times of several processes.
    """
    timed = runs[runs["processes_s"].notna()]
    names = [str(text).split() for text in timed["processes"]]
    seconds = [np.array(str(text).split(), float) for text in timed["processes_s"]]
    if len(timed) < len(runs) or not names or min(map(len, names)) < 2:
        return None
    relative = [own / own.max() for own in seconds]
    is_paired = len(names) > 1 and all(own == names[0] for own in names)
    excess = []
    for number, own in enumerate(relative):
        others = [each for other, each in enumerate(relative) if other != number]
        order = np.argsort(np.mean(others, axis=0) if is_paired else own)
        excess.append(own[order[-1]] - own[order[: len(own) // 2]].mean())
    overall = np.mean(relative, axis=0) if is_paired or len(names) == 1 else relative[-1]
    scatter = float(np.sqrt(np.mean(np.var(relative, axis=0, ddof=1)))) if is_paired else 0.0
    is_slow = float(np.median(excess)) > 2 * scatter
    name = names[-1][int(np.argmax(overall))]
    return Slowest(f"all@{host}" if (host := find_slow_node(names[-1], overall)) else name, np.array(excess), is_slow)


def find_slow_node(names: list[str], seconds: np.ndarray) -> str | None:
    """Return the host of the slowest process if all of its several processes are slow; None otherwise.

    names: rank@host of each process. Each must exceed the faster half by half as much as the slowest one does, and
    other hosts must have processes that do not.
    """
    hosts = np.array([name.split("@", 1)[1] for name in names])
    is_own = hosts == hosts[int(np.argmax(seconds))]
    fast = np.sort(seconds)[: len(seconds) // 2].mean()
    needed = (fast + seconds.max()) / 2
    is_slow = is_own.sum() > 1 and seconds[is_own].min() >= needed and (seconds[~is_own] < needed).any()
    return str(hosts[is_own][0]) if is_slow else None
