"""
The images of each input of a study, and the quality of a guess without looking at them.

quality_of_guess is the metric of a predictor that knows only how frequent each class is in the training images. Its
accuracy is that of always naming the most frequent class, its ROC AUC is 0.5. `left_out` names the labels that the
metric leaves out, because all or none of the test images have them. `split` says how the workflow split images that did
not come split, `num_train_groups` and `num_test_groups` count groups that stay in one split, such as patients, and
`remarks` are those of the preparation. Values are empty if the prepared images were deleted.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from howmanygpus.measure.input.description import DESCRIPTION, MANIFEST, read_description
from howmanygpus.measure.input.prepared import SPLITS
from howmanygpus.report.metrics import load_metric
from howmanygpus.report.predictions import guess, read_class_names
from howmanygpus.report.words import word

READS = ("results",)
USES_METRIC = True
IS_MERGED = True
COUNTS = ("num_train", "num_test", "height", "width", "channels", "num_classes")
GROUPS = ("num_train_groups", "num_test_groups")
COLUMNS = ("study", "dataset", "input", *COUNTS, "metric", "quality_of_guess", "left_out", "split", *GROUPS, "remarks")
REMARKS = "remarks.txt"
"""A file beside the arrays; prepare.checks.remarks writes it."""


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per input. results: the folder that holds `results/`."""
    specs = {planned["spec"]["input"]: planned["spec"] for planned in plan["runs"].values()}
    metric = plan["config"]["quality"]["metric"]
    # The data of a user's program are not known.
    folders = {name: results / spec["data_dir"] if "data_dir" in spec else None for name, spec in specs.items()}
    rows = [describe_input(spec, folders[name], metric) for name, spec in specs.items()]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict.fromkeys(GROUPS, "Int64"))


def describe_input(spec: dict, folder: Path | None, metric: str) -> dict:
    """Return the row of one input. folder: its prepared folder, if any; it may be gone once the study is finished."""
    row = {"metric": metric, **{key: spec[key] for key in ("study", "dataset", "input")}}
    if folder is None or not (folder / DESCRIPTION).exists():
        return row
    description = read_description(folder)
    row |= dict(zip(("height", "width", "channels"), description["image_shape"], strict=True))
    row |= {key: description[key] for key in ("num_train", "num_test", "num_classes")}
    train, test = (np.load(folder / f"{split}_labels.npy") for split in ("train", "test"))
    row |= {"split": describe_split(description.get("split")), "remarks": join_remarks(folder)}
    row |= count_groups(folder)
    judge = load_metric(metric)
    if hasattr(judge, "list_undefined_labels"):
        names = read_class_names(folder, description["num_classes"])
        row["left_out"] = "; ".join(names[number] for number in judge.list_undefined_labels(test))
    return row | {"quality_of_guess": judge.compute(guess(train, test, description["num_classes"]))}


def describe_split(split: dict | None) -> str:
    if not split:
        return ""
    return word("tables", "split", test_frac=split["test"], by=split["by"], seed=split["seed"])


def count_groups(folder: Path) -> dict[str, int]:
    """Return the columns that count groups, from the manifest of the arrays from which a folder's images were made."""
    path = folder.parent / "arrays" / MANIFEST
    if not path.exists() or "group" not in pd.read_table(path, nrows=0):
        return {}
    manifest = pd.read_table(path, usecols=["split", "group"], dtype=str)
    counts = manifest.groupby("split")["group"].nunique()
    return {f"num_{split}_groups": int(counts.get(split, 0)) for split in SPLITS}


def join_remarks(folder: Path) -> str:
    """Return the remarks on the arrays from which the images of a folder were made, in one line."""
    path = folder.parent / "arrays" / REMARKS
    return "; ".join(path.read_text().splitlines()) if path.exists() else ""
