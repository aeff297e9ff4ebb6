"""
Every planned run: its status, its rates and quality, and its versions.

A rate is all images over all seconds of the measured windows. `unit` is what batches and rates count: images, or what a
user's program counts. Values that are undefined are empty. `protocol` says why a run that repeats an unfair protocol is
not comparable; it is empty for all others. `control` names the part that a control run replaces or leaves out:
`resident_input`, `no_exchange` (which is not training) or `no_evaluation`. `own_rates` has the learning rates that the
study gives to this framework alone. `health` has the findings on its devices and hosts (helpers.device_health), and is
empty without any. `loss_last` is the training loss of the last window, and `roc_auc_last` the area under the ROC curve
of two classes. A run with other settings than the plan's has the status `stale`, and no numbers. `stale_because` says
why a run is not repeated by the target `available`, although a full call would repeat it: besides settings, its code,
data or pins may have changed. `is_outlier` says whether the rate is far from those of the other repeats, see
helpers.outliers; it is empty if they are too few to judge.

`checkpoint_s` is in no rate and in the wall time. `unended_checkpoint` has the steps after which a program reported
that a checkpoint begins, and never that it ends.

With `repeats: auto`, repeats that no configuration needs have no row, and `repeats_ended` says why the configuration of
a run is not repeated further. It is empty if the number of repeats is fixed, and until it is decided.

`independent` says that each device did a run of its own. The rate is then that of all devices together if each were as
fast as the slowest, all other values of the training are those of the slowest device, and `device_images_per_s_min` and
`_max` are the rates of the slowest and of the fastest device.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from howmanygpus.paths import RUNS
from howmanygpus.report import accounting, trajectory
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.disturbance import is_disturbed
from howmanygpus.report.metrics import load_metric
from howmanygpus.report.outcomes import GridDecision, Outcome, read_outcomes
from howmanygpus.report.published import describe_protocol
from howmanygpus.report.rows import describe_own_rates
from howmanygpus.report.tables.evaluations import explain_missing
from howmanygpus.report.tables.helpers.device_health import (
    compare_devices,
    describe_findings,
    judge_run,
    list_devices,
)
from howmanygpus.report.tables.helpers.outliers import flag_outliers
from howmanygpus.report.words import word

READS = ("results", "evaluations", "losses", "decision")
USES_METRIC = True
IS_MERGED = True
GIB = 2**30
SAME_LOSS = 1e-6
"""Largest relative difference of losses that are the same: programs print them with few digits."""

OUTCOME = (
    *(
        "status",
        "reason",
        "stale_because",
        "repeats_ended",
        "disturbed",
        "is_outlier",
        "health",
        "images_per_s",
        "device_images_per_s_min",
        "device_images_per_s_max",
        "step_s_median",
        "step_s_p95",
        "data_wait_frac",
    ),
    *("staging_s", "init_s", "compile_s", "train_s", "eval_s", "checkpoint_s", "wall_time_s"),
    *("images_seen", "peak_memory_gib", "missing_steps", "unended_checkpoint", "loss_last"),
    *("skipped_steps", "loss_scale"),
    "host_to_device_gib_per_s",
    *trajectory.COLUMNS,
    *("quality_metric", "quality_last", "quality_best", "quality_of_guess", "num_evaluated", "roc_auc_last"),
    *accounting.COLUMNS,
)
PROVENANCE = (
    *("framework_version", "python_version", "device_model", "driver_version", "git_commit"),
    *("manifest_sha256", "hostname", "nodes", "gpu_uuids", "started_at", "parity", "run_dir"),
)
COLUMNS = (*IDENTITY, "model_options", "own_rates", "independent", "protocol", "control", *OUTCOME, *PROVENANCE)


def tabulate(
    plan: dict,
    evaluations: pd.DataFrame,
    losses: pd.DataFrame,
    results: Path = Path(),
    decision: GridDecision | None = None,
) -> pd.DataFrame:
    """One row per planned run. evaluations, losses: tables; results: the folder that holds `results/`.

    decision: what an adaptive study decided; None for a fixed grid.
    """
    decided = decision["runs"] if decision else {}
    repeats_ended = decision.get("repeats_ended", {}) if decision else {}
    spare = set(decision.get("spare", [])) if decision else set()
    outcomes = [outcome for outcome in read_outcomes(plan, results) if outcome.path not in spare]
    metric = plan["config"]["quality"]["metric"]
    quality = summarize_quality(evaluations, metric)
    trajectories = trajectory.summarize_trajectories(losses)
    has_record = [outcome.record for outcome in outcomes if outcome.record is not None and outcome.status != "stale"]
    completed = [outcome for outcome in outcomes if outcome.status == "completed" and not outcome.control]
    # Control runs repeat the first variant, which is planned before the others.
    trained = {name_work(outcome.identity): outcome for outcome in reversed(completed)}
    comparisons = compare_devices(list_devices(has_record))
    rows = []
    for outcome in outcomes:
        identity = tuple(outcome.identity.values())
        row = describe_run(outcome, plan["billing"], quality.get(identity, {}))
        is_program = "program" in plan["runs"][outcome.path]["spec"]
        if outcome.status == "completed" and is_program and outcome.control:
            row |= find_same_losses(outcome, trained)
        elif outcome.status == "completed" and is_program and identity not in quality:
            row["reason"] = explain_missing(outcome.read_events(), metric)
        if outcome.status == "missing" and outcome.path in decided:
            row["status"], row["reason"] = decided[outcome.path]
        if outcome.record is not None and outcome.status != "stale":
            row["health"] = describe_findings(judge_run(outcome.record, comparisons))
        names = outcome.identity["framework"], outcome.identity["variant"]
        row["model_options"] = describe_options(plan["runs"][outcome.path]["spec"]["model_options"])
        row["own_rates"] = describe_own_rates(plan["config"], *names)
        row["independent"] = plan["runs"][outcome.path]["spec"].get("independent") or None
        row["stale_because"] = plan.get("stale", {}).get(outcome.path)
        row["repeats_ended"] = repeats_ended.get(outcome.path, ["", None])[1]
        row["protocol"] = describe_protocol(outcome.protocol) if outcome.protocol else None
        row["control"] = outcome.control or None
        rows.append(row | trajectories.get(identity, {}))
    # Runs without images turn it into a column of floats, which would be written with six digits.
    table = pd.DataFrame(rows, columns=list(COLUMNS)).astype(
        dict.fromkeys(("images_seen", "num_evaluated", "missing_steps", "unended_checkpoint"), "Int64")
    )
    return table.assign(is_outlier=flag_outliers(table))


def name_work(identity: dict) -> tuple:
    """Return what a program's control run has in common with the run that it repeats."""
    return tuple(value for name, value in identity.items() if name != "variant")


def find_same_losses(control: Outcome, trained: dict[tuple, Outcome]) -> dict:
    """Return what a control run loses whose losses are those of the training, because it left nothing out.

    trained: completed runs of the first variant by name_work. A program may print a loss that never
    changes, which says nothing.
    """
    base = trained.get(name_work(control.identity))
    if base is None:
        return {}
    own, others = read_losses(control), read_losses(base)
    common = sorted(own.keys() & others.keys())
    is_same = np.allclose([own[step] for step in common], [others[step] for step in common], rtol=SAME_LOSS, atol=0)
    if len({own[step] for step in common}) < 2 or not is_same:
        return {}
    last = common[-1]
    reason = word("tables", "same_losses", control=control.control, step=last, loss=own[last])
    return {"images_per_s": None, "step_s_median": None, "step_s_p95": None, "reason": reason}


def read_losses(outcome: Outcome) -> dict[int, float]:
    """Return the losses that a run reported, by step."""
    windows = [event for event in outcome.read_events() if event["event"] == "window" and event["loss"] is not None]
    return {event["first_step"] + event["num_steps"] - 1: event["loss"] for event in windows}


def describe_options(options: dict) -> str | None:
    """Return the options of a network that differ from its model's as text, such as `blocks 1 1, width 8`."""
    values = {name: value if isinstance(value, list) else [value] for name, value in options.items()}
    return ", ".join(" ".join(map(str, [name, *value])) for name, value in values.items()) or None


def describe_run(outcome: Outcome, billing: dict, quality: dict) -> dict:
    """Return the row of one run, without its trajectory. billing: prices by device, see report.accounting."""
    row = outcome.identity | {"status": outcome.status, "reason": outcome.reason, "run_dir": str(RUNS / outcome.path)}
    if outcome.record is None:
        return row
    if outcome.has_run:
        row |= describe_provenance(outcome.record)
    if outcome.status != "stale":
        run = outcome.record if outcome.has_run else None
        row |= accounting.account(run, outcome.attempts, billing.get(outcome.identity["device"]))
    if outcome.was_trained:
        row |= describe_clocks(outcome.record)
    if outcome.has_run and outcome.status == "completed":
        row |= {"disturbed": is_disturbed(outcome.record)} | describe_timing(outcome.record, outcome.read_events())
        row |= describe_devices(outcome.record)
        row |= quality
    return row


def describe_devices(record: dict) -> dict:
    """Return the rates of the slowest and of the fastest device of an independent run; nothing for other runs."""
    rates = [device["images_per_s"] for device in record.get("devices", []) if device["images_per_s"] is not None]
    return {"device_images_per_s_min": min(rates), "device_images_per_s_max": max(rates)} if rates else {}


def describe_clocks(record: dict) -> dict:
    """Return the seconds of each phase of a trained run, its missing steps, and the loss scaling of fp16.

    record: a run.json.
    """
    clocks = ("init_s", "compile_s", "train_s", "eval_s", "wall_time_s", "images_seen")
    scaling = record.get("loss_scaling", {})
    scaled = {"skipped_steps": scaling.get("skipped_steps"), "loss_scale": scaling.get("scale")}
    given = {key: record.get(key) for key in ("staging_s", "missing_steps", "checkpoint_s", "unended_checkpoint")}
    return given | {key: record[key] for key in clocks} | scaled


def describe_provenance(record: dict) -> dict:
    """Return versions, host and hashes. record: a run.json."""
    host, versions = record["host"], record.get("versions", {})
    return {
        "framework_version": " ".join(f"{name} {version}" for name, version in versions.items()) or None,
        # The launcher of a user's program runs in another Python.
        "python_version": None if "program" in record["spec"] else host["python_version"],
        "device_model": host["cpu_model"] if record["spec"]["device_kind"] == "cpu" else record.get("device_model"),
        "driver_version": host["driver_version"],
        "git_commit": host["git_commit"],
        "manifest_sha256": record.get("manifest_sha256"),
        "hostname": host["hostname"],
        "nodes": " ".join(list_run_nodes(record)),
        "gpu_uuids": " ".join(list_run_gpus(record)) or None,
        "started_at": record["started_at"],
        "parity": record["parity"],
    }


def list_run_nodes(record: dict) -> list[str]:
    """Return the names of all nodes of a run: the nodes of its processes, else of its job, else its host."""
    known = [process["hostname"] for process in record.get("processes", []) if "hostname" in process]
    by_process = list(dict.fromkeys(known))
    return by_process or [record.get("job", {}).get("nodes") or record["host"]["hostname"]]


def list_run_gpus(record: dict) -> list[str]:
    """Return the UUIDs of all GPUs of a run. Over several nodes, each process records those of its node."""
    by_process = [uuid for process in record.get("processes", []) for uuid in process.get("gpu_uuids", [])]
    return list(dict.fromkeys(by_process or record["host"]["gpu_uuids"]))


def describe_timing(record: dict, events: list[dict]) -> dict:
    """Return the rates over the measured windows, and peaks. record: a run.json; events: its events.jsonl.

    A run has no measured window if it is shorter than its warm-up, or than a first epoch that read from the disk. A
    user's program may report all its steps in the same second.
    """
    windows = list_measured(events)
    peak = record["peak_memory_bytes"]
    losses = [event["loss"] for event in events if event["event"] == "window" and event["loss"] is not None]
    return {
        **(describe_rates(record, windows) if any(window["elapsed_s"] for window in windows) else {}),
        "loss_last": losses[-1] if losses else None,
        "peak_memory_gib": None if peak is None else peak / GIB,
        "host_to_device_gib_per_s": record["host_to_device_gib_per_s"],
    }


def describe_rates(record: dict, windows: list[dict]) -> dict:
    """Return the rates of the measured windows; the slowest process counts. Step times are the first process's.

    A user's program counts its samples itself, and may report neither each step nor its waits for input.
    """
    batch = record["spec"]["global_batch_size"]
    num_images = sum(window.get("samples", window["num_steps"] * batch) for window in windows)
    # In control runs of a program, processes do not wait for each other, and the windows are the first one's.
    own_s = [each.get("measured_s", 0.0) for each in record.get("processes", []) if "program" in record["spec"]]
    elapsed_s = max([sum(window["elapsed_s"] for window in windows), *own_s])
    step_s = list_steps(windows)
    waits_s = [window["data_wait_s"] for window in windows]
    return {
        "images_per_s": num_images / elapsed_s,
        "step_s_median": None if step_s is None else np.median(step_s),
        "step_s_p95": None if step_s is None else np.percentile(step_s, 95),
        "data_wait_frac": None if None in waits_s else sum(waits_s) / elapsed_s,
    }


def list_measured(events: list[dict]) -> list[dict]:
    """Return the measured windows of a run. events: its events.jsonl."""
    return [event for event in events if event["event"] == "window" and event["phase"] == "train"]


def list_steps(windows: list[dict]) -> np.ndarray | None:
    """Return the seconds of each step of measured windows, or None if the run did not report each."""
    step_s = np.concatenate([window["steps_s"] for window in windows])
    return step_s if len(step_s) == sum(window["num_steps"] for window in windows) else None


def summarize_quality(evaluations: pd.DataFrame, metric: str) -> dict[tuple, dict]:
    """Return the last and the best quality of each evaluated run, by the values of its identity."""
    best = "max" if load_metric(metric).BETTER == "higher" else "min"
    defined = evaluations[evaluations["quality"].notna()].astype({"quality": float})
    summary = defined.groupby(IDENTITY, sort=False).agg(
        quality_last=("quality", "last"),
        quality_best=("quality", best),
        quality_of_guess=("quality_of_guess", "first"),
        num_evaluated=("num_evaluated", "first"),
        roc_auc_last=("roc_auc", "last"),
    )
    return summary.assign(quality_metric=metric).to_dict("index")
