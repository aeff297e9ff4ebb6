"""
Where the time of each configuration goes: device-seconds per trained image, by phase, as means over the repeats.

The phases add up to `device_s_per_image`, the wall time times the devices over the images that were trained. `exchange`
and `imbalance` are known where runs without exchange were made (`diagnose: true`, the ends of each curve), and are part
of `steps` elsewhere, as `steps_include` says. `imbalance` is the time in which processes wait for the slowest one.
`other` is what the record does not name: waits for other processes between windows, reading losses, writing events and
measuring gradient noise.
"""

import numpy as np
import pandas as pd

from howmanygpus.report.columns import CURVE, POINT
from howmanygpus.report.published import is_fair
from howmanygpus.report.tables.helpers.controls import NO_EXCHANGE, Repeats, time_images
from howmanygpus.report.tables.run_phases import PHASES as MEASURED

READS = ("runs", "run_phases")
IS_MERGED = True
EXCHANGE, IMBALANCE = "exchange", "imbalance"
PHASES = (
    *("startup", "first_step", "warmup", "input_wait", "steps", EXCHANGE, IMBALANCE),
    *("evaluation", "checkpoint", "other"),
)
"""Phases in the order of figures."""
KEY = [*CURVE, *POINT]
COLUMNS = [*KEY, "num_repeats", "num_disturbed", "device_s_per_image"]
COLUMNS += [*(f"{phase}_device_s_per_image" for phase in PHASES), "steps_include", "evaluation_wall_frac"]


def tabulate(plan: dict, runs: pd.DataFrame, run_phases: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration with a completed run. runs, run_phases: the tables of these names."""
    repeats = Repeats(plan, runs, run_phases)
    fair = run_phases[is_fair(run_phases)]
    groups = fair.groupby(KEY, sort=False)
    return pd.DataFrame([split(own, repeats) for _, own in groups], columns=COLUMNS)


def split(runs: pd.DataFrame, repeats: Repeats) -> dict:
    """Return the row of one configuration. runs: its rows of the table `run_phases`."""
    first = runs.iloc[0]
    scale = first["num_gpus"] / runs["images_seen"].astype(float)
    means = {phase: (runs[f"{phase}_s"].astype(float) * scale).mean(skipna=False) for phase in MEASURED}
    row = first[KEY].to_dict() | {"num_repeats": len(runs)}
    row["num_disturbed"] = int(repeats.find(first)["disturbed"].eq(True).sum())
    row["device_s_per_image"] = (runs["wall_time_s"] * scale).mean()
    measured_images = runs["images_per_s"].astype(float) * (runs["steps_s"] + runs["input_wait_s"].fillna(0.0))
    part = (measured_images / runs["images_seen"].astype(float)).mean()
    exchange = measure_exchange(runs, repeats.find(first, NO_EXCHANGE))
    for phase, seconds in exchange.items():
        # Control runs scatter too, so that a difference to them may be below zero or above all steps.
        means[phase] = min(max(seconds * part, 0.0), means["steps"])
        means["steps"] -= means[phase]
    row |= {f"{phase}_device_s_per_image": means.get(phase, np.nan) for phase in PHASES}
    inside = [name for name in (EXCHANGE, IMBALANCE) if name not in exchange and first["num_gpus"] > 1]
    row["steps_include"] = ", ".join(inside) or None
    row["evaluation_wall_frac"] = means["evaluation"] / row["device_s_per_image"]
    return row


def measure_exchange(runs: pd.DataFrame, alone: pd.DataFrame) -> dict[str, float]:
    """Return the device-seconds per measured image that exchange and imbalance take, as far as they are known.

    alone: the repeats without exchange.
    """
    if runs["num_gpus"].iloc[0] == 1:
        return {EXCHANGE: 0.0, IMBALANCE: 0.0}
    without, with_exchange = time_images(alone), time_images(runs)
    if not (len(without) and len(with_exchange)):
        return {}
    found = {EXCHANGE: float(with_exchange.mean() - without.mean())}
    timed = alone[alone["images_per_s"].notna() & alone["processes_s"].notna()]
    seconds = [np.array(str(text).split(), float) for text in timed["processes_s"]]
    idle = [1 - own.mean() / own.max() for own in seconds if len(own) > 1]
    return found | ({IMBALANCE: float(np.mean(idle) * without.mean())} if idle else {})
