"""
What the devices and hosts of a run did over its duration, in equal bins of time, with the phases of the run.

A run of hours has a hundred thousand samples, a page has room for a few hundred. A sample describes the time since the
sample before it. Means are weighted by time, so that the area below a line is that of the samples.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from howmanygpus.report.telemetry import HOST

PHASES = "phases"
"""Device of the row with the phases of a run."""
SERIES = {
    **{"utilisation_frac": "mean", "memory_gib": "max"},
    **{"disk_read_gib_per_s": "mean", "disk_write_gib_per_s": "mean"},
}
"""How the samples in a bin are joined. Rates of disks are those of the host."""
PHASE_SERIES = ("first_step_frac", "training_frac", "evaluation_frac", "checkpoint_frac")
"""Share of each bin that a phase takes. What remains is start-up, logging and waiting."""
LONGEST_HOLD = 3.0
"""A sample describes at most this many usual intervals before it; a longer gap is a gap of the line."""
Overlaps = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Spans that overlap bins, see overlap_bins."""


def describe_run(samples: pd.DataFrame, events: list[dict], wall_time_s: float | None, num_bins: int) -> list[dict]:
    """Return the rows of summarize_run with each series as text."""
    return [
        row | {column: pack(row[column], column) for column in (*SERIES, *PHASE_SERIES) if column in row}
        for row in summarize_run(samples, events, wall_time_s, num_bins)
    ]


def read_events(folder: Path) -> list[dict]:
    """Return the events of a run or an attempt; none if it has no events.jsonl."""
    path = folder / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def summarize_run(samples: pd.DataFrame, events: list[dict], wall_time_s: float | None, num_bins: int) -> list[dict]:
    """Return one row for the phases of a run, one for each device and one for each host.

    samples: those of the run, by report.telemetry. events: its events.jsonl. wall_time_s: its duration, None if it is
    not known; later samples or events make it longer. A row has `node`, `device`, `bin_s` (seconds of a bin; the first
    one begins when the launcher started) and an array of num_bins values for each key of SERIES or, in the first row,
    of PHASE_SERIES. A bin without samples is nan. The list is empty for a run without samples and events.
    """
    telemetry = samples.sort_values("time_s", kind="stable")
    end_s = max([wall_time_s or 0.0, *telemetry["time_s"].tail(1), *(event["wall_s"] for event in events)])
    if not end_s:
        return []
    bin_s = end_s / num_bins
    rows = [{"node": 0, "device": PHASES, "bin_s": bin_s, **bin_phases(events, bin_s, num_bins)}]
    # A host stands behind its devices, whatever the order of its samples.
    groups = telemetry.groupby(["node", "device"], sort=False).indices
    order = {key: (key[1] == HOST, key[0]) for key in groups}
    columns = {column: telemetry[column].to_numpy(float) for column in ("time_s", *SERIES)}
    held: dict[bytes, Overlaps] = {}
    for node, device in sorted(groups, key=order.__getitem__):
        own = {column: values[groups[node, device]] for column, values in columns.items()}
        joined = {
            column: join_samples(own["time_s"], own[column], how, bin_s, num_bins, held)
            for column, how in SERIES.items()
        }
        rows.append({"node": int(node), "device": device, "bin_s": bin_s, **joined})
    return rows


def bin_phases(events: list[dict], bin_s: float, num_bins: int) -> dict[str, np.ndarray]:
    """Return the share of each bin that each phase takes, by the keys of PHASE_SERIES."""
    spans: dict[str, list[tuple[float, float]]] = {phase: [] for phase in PHASE_SERIES}
    for event in events:
        if phase := name_phase(event):
            span = event["wall_s"] - event["elapsed_s"], event["wall_s"]
            checkpoints = spans["checkpoint_frac"]
            spans[phase] += [span] if phase == "checkpoint_frac" else leave_out(checkpoints, *span)
    shares = {}
    for phase, ends in spans.items():
        starts_s, ends_s = np.array(ends, float).reshape(-1, 2).T
        _, bins, seconds = overlap_bins(starts_s, ends_s, bin_s, num_bins)
        shares[phase] = np.minimum(np.bincount(bins, seconds, num_bins) / bin_s, 1.0)
    return shares


def leave_out(pauses: list[tuple[float, float]], begin_s: float, end_s: float) -> list[tuple[float, float]]:
    """Return the spans of a phase that paused, which is as much longer.

    pauses: all before its end, by time. begin_s: its end without its seconds, which lies too late by its pauses.
    """
    spans = []
    for pause_begin_s, pause_end_s in reversed(pauses):
        if pause_end_s <= begin_s:
            break
        spans.append((pause_end_s, end_s))
        begin_s, end_s = begin_s - (pause_end_s - pause_begin_s), pause_begin_s
    return [*spans, (begin_s, end_s)]


def name_phase(event: dict) -> str | None:
    """Return the phase that an event ends; None if it is none of PHASE_SERIES."""
    if event["event"] in ("evaluation", "checkpoint") and "elapsed_s" in event:
        return f"{event['event']}_frac"
    if event["event"] == "window":
        return "first_step_frac" if event["phase"] == "compile" else "training_frac"
    return None


def join_samples(
    times_s: np.ndarray, samples: np.ndarray, how: str, bin_s: float, num_bins: int, held: dict[bytes, Overlaps]
) -> np.ndarray:
    """Return the mean or the maximum of the samples in each bin; nan in bins without any.

    times_s: rising. samples: of one device; nan where it gave none, as between the samples of slow columns. held: how
    the samples of earlier calls overlap the same bins, by their times, which devices and columns share.
    """
    is_known = np.isfinite(samples)
    result = np.full(num_bins, np.nan)
    if not is_known.any():
        return result
    ends_s, values = times_s[is_known], samples[is_known]
    if (key := ends_s.tobytes()) not in held:
        before_s = np.concatenate([[0.0], ends_s[:-1]])
        hold_s = LONGEST_HOLD * float(np.median(ends_s - before_s))
        held[key] = overlap_bins(np.maximum(before_s, ends_s - hold_s), ends_s, bin_s, num_bins)
    index, bins, seconds = held[key]
    covered = np.bincount(bins, seconds, num_bins)
    has_any = covered > 0
    if how == "max":
        highest = np.full(num_bins, -np.inf)
        np.maximum.at(highest, bins, values[index])
        result[has_any] = highest[has_any]
    else:
        result[has_any] = np.bincount(bins, seconds * values[index], num_bins)[has_any] / covered[has_any]
    return result


def overlap_bins(starts_s: np.ndarray, ends_s: np.ndarray, bin_s: float, num_bins: int) -> Overlaps:
    """Return the spans that overlap bins, as three arrays: index of the span, number of the bin, seconds in common."""
    first = np.clip(np.floor(starts_s / bin_s).astype(int), 0, num_bins - 1)
    last = np.clip(np.ceil(ends_s / bin_s).astype(int) - 1, first, num_bins - 1)
    counts = last - first + 1
    index = np.repeat(np.arange(len(starts_s)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    bins = first[index] + within
    seconds = np.minimum(ends_s[index], (bins + 1) * bin_s) - np.maximum(starts_s[index], bins * bin_s)
    is_common = seconds > 0
    return index[is_common], bins[is_common], seconds[is_common]


def pack(values: np.ndarray, column: str) -> str:
    """Write values of a series as text with commas between them; an undefined one is empty.

    Fractions get two decimals, other numbers four significant digits. A series without any value is empty.
    """
    if np.isnan(values).all():
        return ""
    rounded = np.round(values, 2) if column.endswith("_frac") else values
    return ",".join("" if value != value else f"{value:.4g}" for value in rounded.tolist())


def unpack(text: str) -> np.ndarray:
    return np.array([float(value) if value else np.nan for value in text.split(",")])
