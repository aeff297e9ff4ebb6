"""
Rows of the runs and evaluations tables, computed from what the runs stored.

Rates are total over total of the measured windows; nothing is read from a log, and what is undefined is empty.
"""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd

from benchplan.defaults import study_defaults
from benchreport import accounting
from benchreport.metrics import load_metric

RUNS, ATTEMPTS = Path("results/runs"), Path("results/logs/train")
GIB = 2**30

IDENTITY = (
    *("study", "dataset", "model", "framework", "variant", "input", "precision", "device", "num_nodes", "num_gpus"),
    *("per_device_batch_size", "global_batch_size", "repeat", "seed"),
)
OUTCOME = (
    *("status", "reason", "images_per_s", "step_s_median", "step_s_p95", "data_wait_frac"),
    *("staging_s", "init_s", "compile_s", "train_s", "eval_s", "wall_time_s", "images_seen", "peak_memory_gib"),
    "host_to_device_gib_per_s",
    *("quality_metric", "quality_last", "quality_best"),
    *accounting.COLUMNS,
)
PROVENANCE = (
    *("framework_version", "python_version", "device_model", "driver_version", "git_commit"),
    *("manifest_sha256", "hostname", "started_at", "parity", "run_dir"),
)
EVALUATION = (*IDENTITY, "epoch", "train_s", "wall_s", "quality")


def collect(plan: dict, results: Path = Path()) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per planned run, and one per evaluation of those that completed or diverged.

    plan: the content of results/plans/{study}.json; results: the folder that holds `results`.
    """
    metric = plan["config"]["quality"]["metric"]
    rows, evaluations = [], []
    for path, planned in plan["runs"].items():
        billing = plan["billing"].get(planned["spec"]["device"])
        row, run_evaluations = describe_run(path, planned, metric, billing, results)
        rows.append(row)
        evaluations.extend(run_evaluations)
    columns = [*IDENTITY, *OUTCOME, *PROVENANCE]
    return pd.DataFrame(rows, columns=columns), pd.DataFrame(evaluations, columns=list(EVALUATION))


def describe_run(path: str, planned: dict, metric: str, billing: dict | None, results: Path) -> tuple[dict, list[dict]]:
    """The run's row and the rows of its evaluations. billing: of its device, see benchreport.accounting."""
    identity = {key: planned["spec"][key] for key in IDENTITY}
    run_dir = results / RUNS / path
    if planned["unsupported"]:
        return identity | {"status": "unsupported", "reason": planned["unsupported"]}, []
    if not (run_dir / "run.json").exists():
        return identity | find_last_attempt(results / ATTEMPTS / path, billing), []
    record = json.loads((run_dir / "run.json").read_text())
    row = identity | describe_provenance(record) | {"run_dir": str(RUNS / path)}
    # A run that is older than a key of the config did what the key's default says.
    was = study_defaults() | record["spec"]
    if changed := [key for key, value in planned["spec"].items() if was.get(key) != value]:
        return row | {"status": "stale", "reason": f"was run with another {', '.join(sorted(changed))}"}, []
    row |= {"status": record["status"], "reason": record["reason"], **accounting.account(record, billing)}
    if record["status"] not in ("completed", "diverged"):
        return row, []
    events = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    evaluations = evaluate(identity, events, run_dir / "predictions.npz", metric)
    if record["status"] == "completed":
        row |= describe_timing(record, events) | summarize_quality(evaluations, metric)
    return row, evaluations


def find_last_attempt(folder: Path, billing: dict | None) -> dict:
    """Status and reason of a run that left no run.json, from the record of its last attempt."""
    records = sorted(folder.glob("*/attempt.json"))
    if not records:
        return {"status": "missing", "reason": "not run yet"}
    record = json.loads(records[-1].read_text())
    if record["status"] == "running":
        return describe_unfinished(record)
    return {"status": record["status"], "reason": record["reason"], **accounting.account(record, billing)}


def describe_unfinished(record: dict) -> dict:
    """An attempt without an end is running, on this host or elsewhere, or was killed before it could say so.

    That of a job still runs: benchplan.attempts has settled the others.
    """
    if record.get("job"):
        return {"status": "running", "reason": f"job {record['job']['id']} has not ended"}
    here = record["host"]["hostname"] == os.uname().nodename
    if here and not Path(f"/proc/{record['pid']}").exists():
        return {"status": "killed", "reason": "the launcher ended without a word, as after kill -9 or a lost node"}
    return {"status": "running", "reason": f"attempt started at {record['started_at']} has not ended"}


def describe_provenance(record: dict) -> dict:
    host, versions = record["host"], record.get("versions", {})
    return {
        "framework_version": " ".join(f"{name} {version}" for name, version in versions.items()) or None,
        "python_version": host["python_version"],
        "device_model": record.get("device_model") or host["cpu_model"],
        "driver_version": host["driver_version"],
        "git_commit": host["git_commit"],
        "manifest_sha256": record["manifest_sha256"],
        "hostname": host["hostname"],
        "started_at": record["started_at"],
        "parity": record.get("parity", "not_checked"),
    }


def describe_timing(record: dict, events: list[dict]) -> dict:
    """Rates over the measured windows, and the run's clocks."""
    windows = [event for event in events if event["event"] == "window" and event["phase"] == "train"]
    steps = np.array([window["num_steps"] for window in windows])
    elapsed_s = np.array([window["elapsed_s"] for window in windows])
    wait_s = sum(window["data_wait_s"] for window in windows)
    step_s = np.repeat(elapsed_s / steps, steps)
    peak = record["peak_memory_bytes"]
    return {
        "images_per_s": steps.sum() * record["spec"]["global_batch_size"] / elapsed_s.sum(),
        "step_s_median": np.median(step_s),
        "step_s_p95": np.percentile(step_s, 95),
        "data_wait_frac": wait_s / elapsed_s.sum(),
        "staging_s": record.get("staging_s"),
        **{key: record[key] for key in ("init_s", "compile_s", "train_s", "eval_s", "wall_time_s", "images_seen")},
        "peak_memory_gib": None if peak is None else peak / GIB,
        "host_to_device_gib_per_s": record.get("host_to_device_gib_per_s"),
    }


def evaluate(identity: dict, events: list[dict], predictions: Path, metric: str) -> list[dict]:
    """Quality after each evaluated epoch, with the training clock and the wall clock at that moment."""
    stored = np.load(predictions)
    compute = load_metric(metric).compute
    moments = [event for event in events if event["event"] == "evaluation"]
    return [
        identity
        | {"epoch": moment["epoch"], "train_s": moment["train_s"], "wall_s": moment["wall_s"]}
        | {"quality": compute(rank, loss)}
        for moment, rank, loss in zip(moments, stored["rank"], stored["loss"], strict=True)
    ]


def summarize_quality(evaluations: list[dict], metric: str) -> dict:
    values = [row["quality"] for row in evaluations if row["quality"] is not None]
    if not values:
        return {}
    best = max if load_metric(metric).BETTER == "higher" else min
    return {"quality_metric": metric, "quality_last": values[-1], "quality_best": best(values)}
