"""Runs and attempts as they are stored below results/, and the tables made from them, for tests that run nothing."""

import json

import numpy as np

from helpers.records import make_attempt, make_run
from helpers.specs import make_spec
from howmanygpus.report.tables import datasets, losses
from howmanygpus.report.tables import evaluations as evaluations_table
from howmanygpus.report.tables import runs as runs_table_of
from howmanygpus.study.runs import HOW

QUALITY = {"metric": "accuracy", "thresholds": [0.5, 0.9], "margin": 0.01}
FIXED = {"config": {"num_nodes": None, "optimizer": {"by_framework": {}}, "variants": {}}, "how": HOW}
"""What tables of runs read of a plan, for a study without the key `num_nodes`."""


def collect(plan, results):
    """Make the tables of runs and of evaluations."""
    evaluations = evaluations_table.tabulate(plan, datasets.tabulate(plan, results), results)
    return runs_table_of.tabulate(plan, evaluations, losses.tabulate(plan, results), results), evaluations


def plan_of(*specs, unsupported=(), billing=None):
    runs = {f"run{i}": {"spec": spec.to_dict(), "unsupported": ""} for i, spec in enumerate(specs)}
    runs |= {f"not{i}": {"spec": spec.to_dict(), "unsupported": "no such device"} for i, spec in enumerate(unsupported)}
    plan = {"config": FIXED["config"] | {"quality": QUALITY}, "runs": runs, "billing": billing or {}}
    return plan | {"defaults": {}, "how": HOW}


def store_run(results, name, spec, accuracies=(0.4, 0.8), window_s=(2.0, 3.0), slowest_s=None, **changes):
    """Store a run with two windows of 10 steps and one evaluation of 10 test images per accuracy.

    slowest_s: seconds of one step of each window; the others share the rest.
    """
    folder = results / "results" / "runs" / name
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(make_run(spec, **changes)))
    window = {"event": "window", "phase": "train", "num_steps": 10, "data_wait_s": 0.5, "loss": 2.0}
    numbered = [
        window | {"epoch": 1 + i, "first_step": 1 + 10 * i, "wall_s": 9.0 * i + 8} for i in range(1 + len(window_s))
    ]
    steps_s = {s: [slowest_s or s / 10, *[(s - (slowest_s or s / 10)) / 9] * 9] for s in (100.0, *window_s)}
    warmup = {"phase": "warmup", "elapsed_s": 100.0, "steps_s": steps_s[100.0]}
    elapsed = (warmup, *({"elapsed_s": s, "steps_s": steps_s[s]} for s in window_s))
    events = [window | more for window, more in zip(numbered, elapsed, strict=True)]
    events += [
        {"event": "evaluation", "epoch": i + 1, "step": 10 * (i + 1), "train_s": 2.0 * (i + 1), "wall_s": 9.0 * (i + 1)}
        for i in range(len(accuracies))
    ]
    (folder / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    rank = np.array([[0] * round(10 * a) + [1] * round(10 - 10 * a) for a in accuracies], np.uint16).reshape(-1, 10)
    np.savez(folder / "predictions.npz", rank=rank, loss=np.ones(rank.shape, np.float32))


def write_attempt(tmp_path, status, started="20260101T000000", **changes):
    folder = tmp_path / "results" / "attempts" / "run0" / f"{started}-1"
    folder.mkdir(parents=True)
    (folder / "attempt.json").write_text(json.dumps(make_attempt(make_spec(), status, **changes)))
    return folder / "attempt.json"
