"""Quality of every run after each evaluated epoch, with the training clock and the wall clock at that moment."""

from pathlib import Path

import numpy as np
import pandas as pd

from howmanygpus.report.metrics import load_metric
from howmanygpus.report.outcomes import IDENTITY, Outcome, read_outcomes

READS = ("results",)
USES_METRIC = True
COLUMNS = (*IDENTITY, "epoch", "train_s", "wall_s", "quality")


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per evaluation of the runs that completed or diverged. results: the folder that holds `results/`."""
    metric = plan["config"]["quality"]["metric"]
    outcomes = [outcome for outcome in read_outcomes(plan, results) if outcome.was_trained]
    rows = [row for outcome in outcomes for row in evaluate(outcome, metric)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def evaluate(outcome: Outcome, metric: str) -> list[dict]:
    """Rows of one run."""
    stored, compute = np.load(outcome.folder / "predictions.npz"), load_metric(metric).compute
    moments = [event for event in outcome.read_events() if event["event"] == "evaluation"]
    return [
        outcome.identity
        | {"epoch": moment["epoch"], "train_s": moment["train_s"], "wall_s": moment["wall_s"]}
        | {"quality": compute(rank, loss)}
        for moment, rank, loss in zip(moments, stored["rank"], stored["loss"], strict=True)
    ]
