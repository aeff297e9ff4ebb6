"""Findings of `make check-gpu`: verdicts, runs, telemetry, the largest batch, and what failed and why."""

import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from howmanygpus.report.check_gpu.telemetry import summarize_samples
from howmanygpus.report.outcomes import read_outcomes
from howmanygpus.report.tables import describe_table, load_table

TIME_UP = "the time was up"
EXPECTED_END = "out_of_memory"


def explain_missing(why: str) -> str:
    """Return the failure of a check that was not done. why: how its step ended."""
    return f"not run: {why}; the same call continues"


def tabulate(plan: dict, results: Path = Path(), table: str = "runs") -> pd.DataFrame:
    """Return a table of a study, made with the tables that it reads. plan: content of results/plans/{study}.json."""
    described = describe_table(table)
    inputs: dict = {name: tabulate(plan, results, name) for name in described.inputs}
    return load_table(table).tabulate(plan, **inputs, **({"results": results} if described.reads_results else {}))


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
        summary = summarize_samples(folder / "telemetry.csv", row["wall_time_s"], on_gpu)
        noticed = json.loads((folder / "run.json").read_text()).get("telemetry_problem")
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


def list_failures(
    verdicts: list[dict],
    rates: pd.DataFrame,
    telemetry: list[dict],
    waits: list[dict],
    largest: list[dict],
    not_found: list[dict],
    why: Mapping[str, str],
) -> list[str]:
    """Return every failure of the check as one line: what failed, and why. `unsupported` is no failure.

    verdicts: `framework`, `variant`, `precision`, `status` (empty without a verdict) and `reason` of each cell. waits:
    see report.check_gpu.waits. not_found: frameworks that are installed in the site's Python but do not work, as
    `environment` and `reason`. why: how the steps `gate` and `rates` ended.
    """
    failures = [f"{found['environment']}: {found['reason']}" for found in not_found]
    for verdict in verdicts:
        if verdict["status"] not in ("passed", "unsupported"):
            said = f"{verdict['status']}: {verdict['reason']}" if verdict["status"] else explain_missing(why["gate"])
            name = f"{verdict['framework']} ({verdict['variant']})"
            failures.append(f"gate of {name} in {verdict['precision']}: {said}")
    for _, row in rates.iterrows():
        if row["status"] not in ("completed", "unsupported"):
            is_missing = row["status"] == "missing"
            said = explain_missing(why["rates"]) if is_missing else f"{row['status']}: {row['reason']}"
            failures.append(f"run {describe_run(row)}: {said}")
    failures += [f"telemetry of {row['run']}: {row['problem']}" for row in telemetry if row["problem"]]
    failures += [f"wait of {row['framework']}: {row['problem']}" for row in waits if row["problem"]]
    failures += [f"largest batch of {row['framework']}: {row['problem']}" for row in largest if row["problem"]]
    return failures
