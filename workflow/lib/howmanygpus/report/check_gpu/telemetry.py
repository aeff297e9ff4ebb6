"""Read a run's telemetry, check that its devices were sampled to the end, and summarize the samples."""

import csv
from pathlib import Path

LATE_S = 5.0
"""Longest time between the last sample and the end of a run, in seconds. Samples are one second apart."""


def read_samples(path: Path, on_gpu: bool) -> list[dict[str, str]]:
    """Return the samples of the GPUs, or those of the processes on a CPU; none without the file."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return [row for row in csv.DictReader(file) if (row["device"] != "cpu") == on_gpu]


def summarize_samples(path: Path, wall_time_s: float, on_gpu: bool) -> dict:
    """Summarize a telemetry.csv of a run that took `wall_time_s`.

    Returns samples (number), last_s, the mean utilisation_frac and power_w and the largest memory_gib over all samples
    (None without values), energy_j over all devices, and `problem`: what is wrong with the samples, or nothing.
    """
    rows = read_samples(path, on_gpu)
    last_s = max((float(row["time_s"]) for row in rows), default=0.0)
    values = {key: _numbers(rows, key) for key in ("utilisation_frac", "power_w", "memory_gib")}
    summary = {
        "samples": len(rows),
        "last_s": last_s,
        "utilisation_frac": _mean(values["utilisation_frac"]),
        "power_w": _mean(values["power_w"]),
        "memory_gib": max(values["memory_gib"], default=None),
        "energy_j": _energy(rows),
    }
    return summary | {"problem": _find_problem(summary, wall_time_s, "GPU" if on_gpu else "process")}


def _find_problem(summary: dict, wall_time_s: float, what: str) -> str:
    if not summary["samples"]:
        return f"telemetry has no {what} samples"
    if not summary["memory_gib"]:
        return f"no {what} sample has the memory in use"
    if summary["last_s"] < wall_time_s - LATE_S:
        return f"{what} samples end after {summary['last_s']:.0f} s of {wall_time_s:.0f} s"
    return ""


def _numbers(rows: list[dict[str, str]], key: str) -> list[float]:
    return [float(row[key]) for row in rows if row[key]]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _energy(rows: list[dict[str, str]]) -> float | None:
    """Return the energy between first and last sample, summed over devices; None if no device counts its energy."""
    counters: dict[str, list[float]] = {}
    for row in rows:
        if row["energy_j"]:
            counters.setdefault(row["device"], []).append(float(row["energy_j"]))
    return sum(max(values) - min(values) for values in counters.values()) if counters else None
