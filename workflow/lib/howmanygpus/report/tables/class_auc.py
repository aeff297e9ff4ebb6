"""
Area under the ROC curve of each label, after the last evaluation of each run on images with any number of labels.

The curve of a label is computed from the test images for which the label is known. The area is empty if all or none of
them have the label; quality metrics leave such a label out. Studies with one label per image have no rows; with two
classes, `roc_auc_last` in runs.tsv is the area.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from howmanygpus.measure.input.prepared import MISSING
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.metrics.macro_auc import compute_by_label
from howmanygpus.report.outcomes import Outcome, read_outcomes
from howmanygpus.report.predictions import Predictions, read_class_names, read_predictions

READS = ("results",)
IS_MERGED = True
CATEGORY = "More"
COUNTS = ("num_present", "num_absent", "num_missing")
COLUMNS = (*IDENTITY, "epoch", "label", "class", *COUNTS, "auc")


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per label of each run. results: the folder that holds `results/`."""
    # The images of a user's program are not known, and it leaves no predictions.
    specs = {path: planned["spec"] for path, planned in plan["runs"].items() if "program" not in planned["spec"]}
    folders = {path: results / spec["data_dir"] for path, spec in specs.items()}
    trained = [each for each in read_outcomes(plan, results) if each.was_trained and each.path in folders]
    rows = [row for outcome in trained for row in describe_labels(outcome, folders[outcome.path])]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def describe_labels(outcome: Outcome, folder: Path) -> list[dict]:
    """Return the rows of one run. folder: the prepared folder of its images."""
    evaluations = list(read_predictions(outcome.folder / "predictions.npz"))
    if not evaluations or evaluations[-1].label is None or evaluations[-1].label.ndim == 1:
        return []
    epoch = [event["epoch"] for event in outcome.read_events() if event["event"] == "evaluation"][-1]
    areas, counts = compute_by_label(evaluations[-1]), count_labels(evaluations[-1])
    return [
        outcome.identity | {"epoch": epoch, "label": number, "class": name, **count, "auc": area}
        for number, (name, count, area) in enumerate(
            zip(read_class_names(folder, len(areas)), counts, areas, strict=True)
        )
    ]


def count_labels(predictions: Predictions) -> list[dict[str, int]]:
    """Return, for each label, the numbers of test images that have it, lack it, or for which it is unknown."""
    (label,) = predictions.require("label")
    columns = (np.sum(label == value, axis=0).tolist() for value in (1, 0, MISSING))
    return [dict(zip(COUNTS, values, strict=True)) for values in zip(*columns, strict=True)]
