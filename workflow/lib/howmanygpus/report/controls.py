"""The repeats of a configuration and of its control runs, and what these say about its processes."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from howmanygpus.report.published import is_fair
from howmanygpus.report.tables.scaling import CURVE

RESIDENT_INPUT, NO_EXCHANGE, NO_EVALUATION = "resident_input", "no_exchange", "no_evaluation"
"""Values of the column `control` of the table `runs`."""
CONFIGURATION = ["placement", "num_nodes", "num_gpus", "per_device_batch_size", "global_batch_size"]


def find_first_variant(plan: dict, runs: pd.DataFrame) -> str:
    """Return the variant that control runs repeat: the first one of the study."""
    variants = list(plan["config"].get("variants", {})) or list(runs.loc[is_fair(runs), "variant"])
    return variants[0] if variants else ""


class Repeats:
    """The repeats of configurations, by what they leave out of their work.

    first_variant: the one that control runs repeat.
    """

    def __init__(self, runs: pd.DataFrame, phases: pd.DataFrame, first_variant: str):
        """runs, phases: the tables `runs` and `run_phases`."""
        names = ["framework", "variant", "input", "precision", "device", *CONFIGURATION, "repeat"]
        columns = [name for name in phases if name not in runs or name in names]
        self._runs = runs.merge(phases[columns], on=names, how="left")
        self._runs["control"] = self._runs["control"].astype(object).where(self._runs["control"].notna(), "")
        self._fair = is_fair(runs).to_numpy()
        self.has_controls = bool((self._runs["control"] != "").any())
        self.first_variant = first_variant

    def find(self, row: pd.Series, control: str = "") -> pd.DataFrame:
        """Return all planned repeats of a configuration, or of one of its controls."""
        runs = self._runs
        same = [*CURVE, *CONFIGURATION] if not control else [n for n in CURVE if n not in ("variant", "input")]
        chosen = (runs[same] == row[same]).all(axis=1)
        if not control:
            return runs[chosen & self._fair]
        chosen &= (runs[CONFIGURATION] == row[CONFIGURATION]).all(axis=1) & (runs["control"] == control)
        if row["variant"] != self.first_variant:
            return runs[chosen & False]
        # One resident batch takes the place of all inputs.
        return runs[chosen & ((runs["input"] == row["input"]) | (control == RESIDENT_INPUT))]


def time_images(runs: pd.DataFrame) -> np.ndarray:
    """Return the device-seconds per image of each repeat with a rate."""
    rated = runs[runs["images_per_s"].notna()]
    return (rated["num_gpus"] / rated["images_per_s"]).to_numpy(float)


@dataclass(frozen=True)
class Slowest:
    """The slowest process of a configuration. name: rank@host. excess: see find_slowest.

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
    return Slowest(names[-1][int(np.argmax(overall))], np.array(excess), is_slow)
