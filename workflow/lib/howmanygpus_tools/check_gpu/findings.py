"""Findings of `make check-gpu`: verdicts, runs, telemetry, runs without wait, the largest batch, and failures."""

import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from howmanygpus.report.outcomes import read_outcomes
from howmanygpus.report.tables import describe_table, load_table
from howmanygpus.report.telemetry import find_problem, is_cpu, is_gpu, read_telemetry
from howmanygpus_tools.check_gpu.waits import UNSUPPORTED, RunWithoutWait

LATE_S = 5.0
"""Longest time between the last sample and the end of a run, in seconds."""


def summarize_samples(folder: Path, wall_time_s: float, on_gpu: bool) -> dict:
    """Summarize the samples of the GPUs, or of the CPU devices, of a run that took `wall_time_s`. folder: of the run.

    Returns samples (number), last_s, the mean utilisation_frac and power_w and the largest memory_gib over all samples
    (None without values), energy_j over all devices, and `problem`: what is wrong with the samples, or nothing.
    """
    samples = read_telemetry(folder)
    rows = samples[is_gpu(samples["device"]) if on_gpu else is_cpu(samples["device"])]
    energy = rows.dropna(subset="energy_j").groupby("device")["energy_j"]
    summary = {
        "samples": len(rows),
        "last_s": rows["time_s"].max() if len(rows) else 0.0,
        "utilisation_frac": _none_if_nan(rows["utilisation_frac"].mean()),
        "power_w": _none_if_nan(rows["power_w"].mean()),
        "memory_gib": _none_if_nan(rows["memory_gib"].max()),
        "energy_j": _none_if_nan((energy.max() - energy.min()).sum(min_count=1)),
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


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


COMPLETES_STEPS = "completes steps before they return on a CPU, so that there is nothing to wait for"
STOPPED = ("running", "interrupted", "killed")
"""Statuses of attempts that were stopped from outside, by a signal or by SIGKILL."""
SHORTER_FRAC, SHORTER_PAIRS = 0.1, 0.85
"""Windows are too short without the wait if the median lacks this fraction, and nearly all are shorter than the window
before them. If only the wait ended a window, each window without it would lack a large part of a step. Other work on
the machine also changes windows, but in both directions: 16 of 18 pairs differ in one direction by chance once in
1,500.
"""


def describe_wait(run: RunWithoutWait, why: str) -> dict:
    """Describe a run without wait. why: how it ended if it has no record.

    Keys: framework, status (empty if it was not done), with_wait_s and without_s (median seconds of a window, None if
    it was not measured), reason, and `problem`: empty if nothing is wrong.
    """
    row: dict = {"framework": run.framework, "status": "", "reason": "", "problem": ""}
    row |= {"with_wait_s": None, "without_s": None}
    if not run.shows_it:
        return row | {"reason": COMPLETES_STEPS}
    if refusal := run.explain_refusal():
        return row | {"status": UNSUPPORTED, "reason": refusal}
    record = run.read_outcome() or run.read_last_attempt()
    if record is None or record["status"] in STOPPED:
        return row | {"problem": explain_missing(why)}
    row |= {"status": record["status"], "reason": record["reason"]}
    if record["status"] != "completed":
        is_problem = record["status"] != UNSUPPORTED
        return row | {"problem": f"{record['status']}: {record['reason']}" if is_problem else ""}
    with_wait_s, without_s = _read_windows(run)
    medians = statistics.median(with_wait_s), statistics.median(without_s)
    row |= dict(zip(("with_wait_s", "without_s"), medians, strict=True))
    shorter = [without < with_wait for with_wait, without in zip(with_wait_s, without_s, strict=False)]
    is_short = sum(shorter) > SHORTER_PAIRS * len(shorter)
    return row | {"problem": _describe_problem(*medians) if is_short else ""}


def _read_windows(run: RunWithoutWait) -> tuple[list[float], list[float]]:
    """Return the seconds of the measured windows that end with the wait, and of those after them, which do not."""
    events = [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]
    windows = [event for event in events if event["event"] == "window"]
    without_s, with_wait_s = (
        [window["elapsed_s"] for window in windows[first::2] if window["phase"] == "train"] for first in (0, 1)
    )
    return with_wait_s, without_s


def _describe_problem(with_wait_s: float, without_s: float) -> str:
    if without_s >= (1 - SHORTER_FRAC) * with_wait_s:
        return ""
    return (
        f"a window takes {1000 * without_s:.3g} ms without the wait and {1000 * with_wait_s:.3g} ms with it: neither "
        "the marker of a step nor its loss waits for it, so rates depend on wait_until_idle alone"
    )


TIME_UP = "the time was up"
EXPECTED_END = "out_of_memory"


def explain_missing(why: str) -> str:
    """Return the failure of a check that was not done. why: how its step ended."""
    return f"not run: {why}; the same call continues"


def tabulate(plan: dict, results: Path = Path(), table: str = "runs") -> pd.DataFrame:
    """Return a table of a study, made with the tables that it reads. plan: content of results/plans/{study}.json."""
    described, sources = describe_table(table), {"results": results}
    inputs: dict = {name: tabulate(plan, results, name) for name in described.inputs}
    inputs |= {name: sources[name] for name in described.sources if name in sources}
    return load_table(table).tabulate(plan, **inputs)


def describe_run(row: pd.Series) -> str:
    tier = f"{row['variant']}, " if row["variant"] != "base" else ""
    return f"{row['framework']} ({tier}{row['input']}, {row['precision']}, batch {row['per_device_batch_size']})"


def add_telemetry(rates: pd.DataFrame, on_gpu: bool, results: Path = Path()) -> list[dict]:
    """Return for each completed run its description and the summary of its telemetry.

    A problem that the launcher noticed takes precedence over one in the samples.
    """
    summaries = []
    for _, row in rates[rates["status"] == "completed"].iterrows():
        folder = results / row["run_dir"]
        summary = summarize_samples(folder, row["wall_time_s"], on_gpu)
        noticed = find_problem(json.loads((folder / "run.json").read_text()))
        summaries.append({"run": describe_run(row)} | summary | ({"problem": noticed} if noticed else {}))
    return summaries


def list_completed_at_largest(plan: dict, results: Path = Path()) -> list[str]:
    """Return the frameworks whose run with the largest batch size of the plan completed."""
    outcomes = list(read_outcomes(plan, results))
    largest = max(outcome.identity["per_device_batch_size"] for outcome in outcomes)
    at_largest = [outcome for outcome in outcomes if outcome.identity["per_device_batch_size"] == largest]
    return [outcome.identity["framework"] for outcome in at_largest if outcome.status == "completed"]


def find_largest(batches: pd.DataFrame, most: int, on_gpu: bool, why: str) -> list[dict]:
    """Return for each framework its largest batch and how the search ended.

    most: number of training images, which limits the search. why: how the step ended. Keys: framework, largest (None if
    no run completed), peak_memory_gib and images_per_s there, next (the first size that did not complete, or None),
    status and reason of that, and `problem`: any end other than `out_of_memory`, which is only expected on a GPU.
    """
    found = []
    for framework, rows in batches.groupby("framework", sort=False):
        rows = rows.sort_values("per_device_batch_size")
        completed, others = rows[rows["status"] == "completed"], rows[rows["status"] != "completed"]
        end = others.iloc[0] if len(others) else None
        best = completed.iloc[-1] if len(completed) else None
        row = {"framework": framework, "largest": None if best is None else best["per_device_batch_size"]}
        row |= {key: None if best is None else best[key] for key in ("peak_memory_gib", "images_per_s")}
        row |= {"next": None if end is None else end["per_device_batch_size"]}
        row |= {"status": "" if end is None else end["status"], "reason": "" if end is None else end["reason"]}
        found.append(row | {"problem": _explain_batch(row, most, on_gpu, why)})
    return found


def _explain_batch(row: dict, most: int, on_gpu: bool, why: str) -> str:
    if row["status"] in (EXPECTED_END, "unsupported"):
        return ""
    if row["status"] == "missing":
        return f"batch {row['next']}: {explain_missing(why)}"
    if row["status"]:
        return f"batch {row['next']}: {row['status']}, not {EXPECTED_END}: {row['reason']}"
    return f"memory for every batch up to {row['largest']} of {most} images; the end was not reached" if on_gpu else ""


RIVALS = {("pytorch_ddp", "stock"): "nchw", ("pytorch_ddp", "best"): "compile", ("jax_sharding", "stock"): "jax"}
"""The expert's way that does what a framework does in a tier."""
EXPERT = "expert"


def read_loops(path: Path) -> dict[tuple[str, int, str], dict]:
    """Return what the expert's loops have printed, the last by network, batch and way. path: a file of JSON lines."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {(row["model"], row["batch_size"], row["way"]): row for row in rows}


def compare_with_expert(
    runs: pd.DataFrame, task: dict, ways: Mapping[str, str], loops: Mapping[tuple, dict], why: str
) -> list[dict]:
    """Return a row for each of the expert's loops of a network, then one for each of the workflow's runs.

    runs: table of the study. task: see steps.describe_task. ways: those asked for, each with how it ended. loops: see
    read_loops. why: how the workflow's runs ended. Keys: model, batch_size, framework (or `expert`), way (or tier),
    status, reason, images_per_s, step_s, first_step_s, peak_memory_gib (None without a value), over_expert (the rate
    over that of the expert's loop that does the same), expert_way, device, and `problem`.
    """
    size = {key: task[key] for key in ("model", "batch_size")}
    rows, rates = [], {}
    for way, ended in ways.items():
        loop = loops.get((*size.values(), way), {"error": explain_missing(ended)})
        row = size | {"framework": EXPERT, "way": way, "status": "" if "error" in loop else "completed"}
        row |= {"reason": loop.get("error", ""), "problem": loop.get("error", ""), "device": loop.get("device")}
        rates[way] = loop.get("images_per_s")
        rows.append(row | {key: loop.get(key) for key in LOOP_RATES})
    for _, run in runs.iterrows():
        row = size | {key: run[key] for key in ("framework", "status", "reason")} | {"way": run["variant"]}
        row |= {
            "device": run["device_model"] if run["status"] == "completed" else None,
            "problem": _explain_run(run, why),
        }
        row |= {key: _none_if_nan(run[name]) for key, name in LOOP_RATES.items()}
        way = RIVALS.get((run["framework"], run["variant"]), "")
        if row["images_per_s"] and rates.get(way):
            row |= {"expert_way": way, "over_expert": row["images_per_s"] / rates[way]}
        rows.append(row)
    return rows


LOOP_RATES = {"images_per_s": "images_per_s", "step_s": "step_s_median", "first_step_s": "compile_s"}
LOOP_RATES |= {"peak_memory_gib": "peak_memory_gib"}
"""Numbers of an expert's loop, with the columns that the workflow's runs have them in."""


def _explain_run(run: pd.Series, why: str) -> str:
    """Return why a run has no result; empty if it has one, or cannot have one. why: how its step ended."""
    if run["status"] in ("completed", "unsupported"):
        return ""
    return explain_missing(why) if run["status"] == "missing" else f"{run['status']}: {run['reason']}"


def list_failures(
    networks: list[dict],
    verdicts: list[dict],
    rates: pd.DataFrame,
    telemetry: list[dict],
    waits: list[dict],
    largest: list[dict],
    not_found: list[dict],
    why: Mapping[str, str],
) -> list[str]:
    """Return every failure of the check as one line: what failed, and why. `unsupported` is no failure.

    networks: see compare_with_expert. verdicts: `framework`, `variant`, `precision`, `status` (empty without a verdict)
    and `reason` of each cell. waits: see describe_wait. not_found: frameworks that are installed in the site's Python
    but do not work, as `environment` and `reason`. why: how the steps `gate` and `rates` ended.
    """
    failures = [f"{found['environment']}: {found['reason']}" for found in not_found]
    for row in networks:
        failures += [f"{row['model']} of {row['framework']} ({row['way']}): {row['problem']}"] if row["problem"] else []
    for verdict in verdicts:
        if verdict["status"] not in ("passed", "unsupported"):
            said = f"{verdict['status']}: {verdict['reason']}" if verdict["status"] else explain_missing(why["gate"])
            name = f"{verdict['framework']} ({verdict['variant']})"
            failures.append(f"gate of {name} in {verdict['precision']}: {said}")
    for _, row in rates.iterrows():
        if said := _explain_run(row, why.get("rates", "")):
            failures.append(f"run {describe_run(row)}: {said}")
    failures += [f"telemetry of {row['run']}: {row['problem']}" for row in telemetry if row["problem"]]
    failures += [f"wait of {row['framework']}: {row['problem']}" for row in waits if row["problem"]]
    failures += [f"largest batch of {row['framework']}: {row['problem']}" for row in largest if row["problem"]]
    return failures
