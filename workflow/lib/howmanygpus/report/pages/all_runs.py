"""
The page of all runs: one row for each planned run, with what its record says, and a figure of the rates.

The page is one file that needs no other, so that it works in a report that was sent by mail. The records, which are
most of it, are compressed. Words are in workflow/report/templates/all_runs.html.jinja, behaviour in all_runs.js.
"""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from howmanygpus.base.secrets import shorten
from howmanygpus.paths import ATTEMPTS
from howmanygpus.report.columns import CONFIGURATION, SERIES, STUDY, TASK, TITLES, list_columns
from howmanygpus.report.files import find_record
from howmanygpus.report.outcomes import UNDECIDED, read_run_attempts
from howmanygpus.report.pages.table_pages import MOST_CHOICES, sort_values
from howmanygpus.report.pages.table_pages import render as render_page
from howmanygpus.report.telemetry import HOST, read_telemetry
from howmanygpus.report.timelines import PHASE_SERIES, PHASES, describe_run, read_events, unpack
from howmanygpus.report.trajectory import has_unexplained_losses
from howmanygpus.report.words import write_number

NAMES = {name: TITLES[name] for name in (*list_columns(STUDY, TASK, SERIES), "placement")}
"""Columns of the table `runs` that say what a run is, with their titles. Those with one value are said once."""
COUNTS = {name: TITLES[name] for name in ("num_gpus", "per_device_batch_size", "repeat")}
MEASURES = {"images_per_s": "images/s", "quality_last": "quality", "train_s": "training (s)", "wall_time_s": "wall (s)"}
FILTERED = (*NAMES, "num_gpus", "per_device_batch_size", "status")
"""Columns with a list of values to choose from, unless it would be longer than MOST_CHOICES."""
FIRST_PLACE = len("results/")
WITHOUT_LOG = ("unsupported", "missing", "not_run", "completed", "stale")
"""Statuses of runs whose log says nothing about the status."""
LOG_LINES, LOG_BYTES, LINE_LETTERS = 30, 20_000, 400
"""How much of a log is shown: its last lines, of which each is cut."""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
"""Colours of a terminal, and other letters that are not to be seen."""
NUM_BINS = 100
"""Points of a line of a timeline."""
LEFT_OUT = ("code", "environment", "spec", "status", "reason", "settings", "versions")
"""Keys of a record that are shown apart from its rest: the files of code as one hash, and names of variables not."""

IN_TIMELINE = ("device", "bin_s", "utilisation_frac", *PHASE_SERIES)
"""Columns of the table `timelines` that are shown."""


def collect(
    runs: list[dict[str, str]], table: pd.DataFrame, timelines: Iterable[pd.DataFrame], results: Path = Path()
) -> dict[str, Any]:
    """Return the facts of the page: columns, rows, what rows have in common, and the details of each run.

    runs, table: the table of that name over all studies, as it is written and as numbers. timelines: the table of that
    name of each study. results: the folder that holds `results/`.
    """
    columns, common = choose_columns(runs)
    titles = NAMES | COUNTS | {"status": "status"} | name_measures(runs) | {"remarks": "remarks"}
    drawn: dict[str, list[dict]] = {}
    for each in timelines:
        for row in each[["run_dir", *IN_TIMELINE]].to_dict("records"):
            drawn.setdefault(row["run_dir"], []).append(row)
    apart = has_unexplained_losses(table)
    details = [describe_details(run, drawn.get(run["run_dir"]), results) for run in runs]
    numbers = number_configurations(table)
    rows = [
        {
            "attributes": {
                "id": f"run{place}",
                "data-configuration": number,
                "class": name_kind(run["status"]),
            },
            "head": str(place + 1),
            "cells": [describe_cell(run | {"remarks": describe_remarks(run, is_apart)}, key) for key in columns],
        }
        for place, (run, is_apart, number) in enumerate(zip(runs, apart, numbers, strict=True))
    ]
    values = {key: sort_values({run[key] for run in runs}, key in COUNTS) for key in columns if key in FILTERED}
    first = {"title": "run", "unit": "", "is_number": True, "is_long": False, "is_sorted": True, "choices": []}
    return {
        "path": "results/tables/runs.tsv",
        "noun": "runs",
        "header": list(table),
        "columns": [first]
        + [
            {
                "title": titles[key],
                "unit": "",
                "is_long": key == "remarks",
                "is_sorted": False,
                "is_number": key in COUNTS | MEASURES,
                "choices": values.get(key, []) if 1 < len(values.get(key, [])) <= MOST_CHOICES else [],
            }
            for key in columns
        ],
        "common": [{"title": titles[key], "value": value} for key, value in common.items()],
        "statuses": table["status"].value_counts().to_dict(),
        "rows": rows,
        "details": details,
    }


def choose_columns(runs: list[dict[str, str]]) -> tuple[list[str], dict[str, str]]:
    """Return the columns of the page in their order, and the value of each column that is the same in all rows."""
    values = {key: {run[key] for run in runs} for key in NAMES}
    common = {key: next(iter(known)) for key, known in values.items() if len(known) == 1}
    shown = [key for key in NAMES if key not in common]
    return ["status", *shown, *COUNTS, *MEASURES, "started_at", "remarks"], common


def name_measures(runs: list[dict[str, str]]) -> dict[str, str]:
    """Return the titles of the columns of measurements: with the metric and the unit, if all runs have the same."""
    metrics = {run["quality_metric"] for run in runs} - {""}
    units = dict.fromkeys(run["unit"] for run in runs)
    titles = {"images_per_s": f"{' or '.join(units)}/s"}
    titles |= {"quality_last": f"last {metrics.pop()}" if len(metrics) == 1 else "last quality"}
    return MEASURES | titles | {"started_at": "started"}


def number_configurations(table: pd.DataFrame) -> list[int]:
    """Return the number of each run's configuration, which all its repeats share. It is that of the first of them."""
    first: dict[tuple, int] = {}
    keys = table[CONFIGURATION].itertuples(index=False, name=None)
    return [first.setdefault(key, position) for position, key in enumerate(keys)]


def match_configurations(scaling: pd.DataFrame, table: pd.DataFrame) -> pd.Series:
    """Return the number of the configuration of each row of the table `scaling`. table: `runs`."""
    keys = table[CONFIGURATION].itertuples(index=False, name=None)
    numbers = dict(zip(keys, number_configurations(table), strict=True))
    own = scaling[CONFIGURATION].itertuples(index=False, name=None)
    return pd.Series([numbers[key] for key in own], scaling.index, dtype=int)


def name_kind(status: str) -> str:
    """Return the kind of a status, by which a row is coloured."""
    if status in ("completed", "stale"):
        return status
    return "undecided" if status in UNDECIDED else "failed"


def describe_cell(run: dict[str, str], key: str) -> dict[str, Any]:
    """Return the text of a cell and the value by which it is sorted. Texts of numbers are rounded."""
    value = run[key]
    if key in MEASURES:
        return {"text": write_number(float(value)) if value else "", "value": value}
    return {"text": value.replace("T", " ").replace("+00:00", " UTC") if key == "started_at" else value, "value": value}


def describe_remarks(run: dict[str, str], is_apart: bool) -> str:
    """Return why a run has its status, and what is to be known about its numbers."""
    remarks = [run["reason"], run["protocol"] and f"not comparable: {run['protocol']}"]
    remarks += [run["control"] and f"control run: {run['control']}"]
    marks = {"disturbed": "disturbed by other work", "is_outlier": "outlier among its repeats"}
    remarks += [words for key, words in marks.items() if run[key] == "True"]
    remarks += ["losses apart from those of other runs"] if is_apart and run["status"] == "completed" else []
    remarks += ["devices or host not in order"] if run["health"] else []
    remarks += [run["stale_because"] and f"stale because {run['stale_because']}"]
    return "; ".join(remark for remark in remarks if remark)


def describe_details(run: dict[str, str], timeline: list[dict] | None, results: Path = Path()) -> dict[str, Any]:
    """Return what a page says about one run beyond its row. timeline: its rows in the table of that name, or None.

    results: the folder that holds `results/`. Paths are relative to `results/`, where the page is.
    """
    name = run["run_dir"].removeprefix("results/runs/")
    place, log = find_record(name, results), Path("results/logs/train", f"{name}.log")
    details: dict[str, Any] = {"run": name, "values": {key: value for key, value in run.items() if value}}
    if (results / log).exists():
        details["log"] = str(log)[FIRST_PLACE:]
        if run["status"] not in WITHOUT_LOG:
            details["log_end"] = read_end(results / log)
    if place is None:
        return details
    record = json.loads((results / place).read_text())
    details |= {"record": str(place)[FIRST_PLACE:], "settings": record["spec"], "versions": record.get("versions", {})}
    details |= {"framework": record.get("settings", {}), "code": hash_code(record.get("code", {}))}
    details["rest"] = {key: value for key, value in record.items() if key not in LEFT_OUT}
    attempts = read_run_attempts(results / ATTEMPTS / name)
    details["attempts"] = [{key: each[key] for key in ("started_at", "status", "reason")} for each in attempts]
    if timeline is None and place.name != "run.json":
        folder = (results / place).parent
        timeline = describe_run(read_telemetry(folder), read_events(folder), record.get("wall_time_s"), NUM_BINS)
    if timeline:
        details["timeline"] = summarize_timeline(timeline)
    return details


def hash_code(code: dict[str, str]) -> str:
    """Return one hash of all files of code that ran; empty if none is known. code: their hashes by path."""
    lines = "".join(f"{path} {digest}\n" for path, digest in sorted(code.items()))
    return hashlib.sha256(lines.encode()).hexdigest() if code else ""


def read_end(log: Path) -> list[str]:
    """Return the last lines of a log as they may be shown: without colours, credentials and the home folder.

    A progress bar overwrites its line; what it wrote last is left.
    """
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - LOG_BYTES))
        text = file.read().decode(errors="replace")
    lines = [line.rstrip().rpartition("\r")[2] for line in text.split("\n")]
    shown = [ESCAPES.sub("", shorten(line))[:LINE_LETTERS] for line in lines if line.strip()]
    return shown[-LOG_LINES:]


def summarize_timeline(rows: list[dict]) -> dict[str, Any]:
    """Return the lines of a small timeline in percent: the phases, the mean of all devices, and that of all hosts.

    rows: those of one run in the table `timelines`, with the columns IN_TIMELINE.
    """
    phases = next(row for row in rows if row["device"] == PHASES)
    others = [row for row in rows if row["device"] != PHASES]
    lines = {name.removesuffix("_frac"): bin_percent([phases[name]]) for name in PHASE_SERIES}
    lines |= {"devices": bin_percent(row["utilisation_frac"] for row in others if row["device"] != HOST)}
    lines |= {"host": bin_percent(row["utilisation_frac"] for row in others if row["device"] == HOST)}
    num_bins = len(unpack(phases[PHASE_SERIES[0]]))
    return {"end_s": round(float(phases["bin_s"]) * num_bins, 3)} | {key: line for key, line in lines.items() if line}


def bin_percent(series: Iterable[Any]) -> list[int | None]:
    """Return the mean of several series in percent, in NUM_BINS bins; empty without any. Undefined bins are None."""
    known = [unpack(each) for each in series if isinstance(each, str) and each]
    if not known:
        return []
    together = np.concatenate([values.reshape(NUM_BINS, -1) for values in known], axis=1)
    counts = np.isfinite(together).sum(axis=1)
    means = np.nansum(together, axis=1) / np.maximum(counts, 1)
    return [round(100 * mean) if count else None for mean, count in zip(means.tolist(), counts.tolist(), strict=True)]


def pack(details: list[dict[str, Any]]) -> str:
    """Return the details of all runs as text: JSON, compressed, in base64. The same details give the same text."""
    return base64.b64encode(gzip.compress(json.dumps(details, separators=(",", ":")).encode(), mtime=0)).decode()


def render(facts: dict[str, Any], figures: dict[str, str]) -> str:
    """Return the page. figures: an SVG for each study."""
    return render_page(facts | {"figures": figures, "details": pack(facts["details"])}, "all_runs.html.jinja")
