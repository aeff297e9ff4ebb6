"""Wording that all parts of the answer share."""

import numpy as np
import pandas as pd

from howmanygpus.report.metrics import load_metric, name_metric
from howmanygpus.report.outcomes import FEWEST
from howmanygpus.report.rows import name_count, name_series

CONFIGURATION = ["framework", "variant", "input", "precision", "device", "placement", "num_nodes", "num_gpus"]
CONFIGURATION += ["per_device_batch_size"]
"""Columns that name a configuration in every table of one study."""


def add_series(table: pd.DataFrame) -> pd.DataFrame:
    """Add the name of each row's series, without its number of nodes, which name_devices adds."""
    return table.assign(series=name_series(table.assign(placement="")))


def name_devices(row: pd.Series) -> str:
    """Name the devices of a row, and their number of nodes if the study has chosen it."""
    devices = name_count(row["num_gpus"], f"{row['device']} device")
    return devices if row["placement"] == FEWEST else f"{devices} of {row['placement']}"


def name_configuration(row: pd.Series) -> str:
    size = row["num_gpus"] * row["per_device_batch_size"]
    accumulated = row.get("global_batch_size", size) // size
    times = f" x {accumulated} batches" if accumulated > 1 else ""
    return f"{row['series']} on {name_devices(row)}{times} x {name_count(row['per_device_batch_size'], 'image')}"


def name_spread(row: pd.Series, median: str, unit: str, digits: str) -> str:
    """Write a median with its number of repeats and its range; one repeat has no range.

    median: the median's column, which ends in _median; those of minimum and maximum end in _min and _max.
    """
    value = f"{row[median]:{digits}} {unit}"
    if row["num_repeats"] == 1:
        return f"{value} (one repeat)"
    low, high = (row[median.replace("_median", end)] for end in ("_min", "_max"))
    return f"{value} (median of {row['num_repeats']} repeats, {low:{digits}} to {high:{digits}})"


def select_repeats(runs: pd.DataFrame, row: pd.Series) -> pd.DataFrame:
    """Return the planned runs of a configuration."""
    return runs[(runs[CONFIGURATION] == row[CONFIGURATION]).all(axis=1)]


def describe_quality(runs: pd.DataFrame, row: pd.Series, datasets: pd.DataFrame) -> str:
    """Name the quality that a configuration reached at the end of training, and that of a guess."""
    repeats = select_repeats(runs, row)
    reached = repeats["quality_last"].dropna().astype(float)
    if reached.empty:
        reasons = repeats.loc[repeats["status"] == "completed", "reason"].dropna()
        why = next((f": {reason}" for reason in reasons if reason), "")
        return f" It was not evaluated{why}."
    metric = repeats["quality_metric"].dropna().iloc[0]
    scope = "in one repeat" if len(reached) == 1 else f"on average over {len(reached)} repeats"
    guessed = describe_guess(metric, row, datasets)
    area = describe_area(metric, repeats)
    text = f" It ends at a test {name_metric(metric)} of {reached.mean():.3g} {scope}{area}; {guessed}."
    return text + warn_of_guessing(metric, reached.mean(), read_guess_quality(row, datasets))


def describe_area(metric: str, repeats: pd.DataFrame) -> str:
    """Name the mean area under the ROC curve of two classes beside another metric; nothing if it is not known."""
    areas = repeats["roc_auc_last"].dropna().astype(float)
    return f", with a ROC AUC of {areas.mean():.3g}" if len(areas) and metric != "roc_auc" else ""


def describe_reached(runs: pd.DataFrame, row: pd.Series) -> str:
    """Name the mean quality that a configuration reached at the end, in a few words; nothing if it is not known."""
    repeats = select_repeats(runs, row)
    reached = repeats["quality_last"].dropna().astype(float)
    return (
        f", ending at a test {name_metric(repeats['quality_metric'].dropna().iloc[0])} of {reached.mean():.3g}"
        if len(reached)
        else ""
    )


def read_guess_quality(row: pd.Series, datasets: pd.DataFrame) -> float:
    """Return the quality of a guess on the images of a row; nan if it is not known."""
    guesses = datasets.loc[datasets["input"] == row["input"], "quality_of_guess"].dropna().astype(float)
    return guesses.iloc[0] if len(guesses) and np.isfinite(guesses.iloc[0]) else np.nan


def describe_guess(metric: str, row: pd.Series, datasets: pd.DataFrame) -> str:
    guess = read_guess_quality(row, datasets)
    if np.isnan(guess):
        return "that of the majority class is not known"
    if metric == "accuracy":
        return f"always naming the majority class gives {guess:.3g}"
    return f"knowing only how frequent each class is gives {guess:.3g}"


def warn_of_guessing(metric: str, reached: float, guess: float) -> str:
    """Say that a network has learned nothing that helps on test images; nothing if it has or if no guess is known."""
    is_better = reached > guess if load_metric(metric).BETTER == "higher" else reached < guess
    if np.isnan(guess) or is_better:
        return ""
    return " That is no better than a guess: compare labels, learning rate and number of epochs with a run that learns."


def describe_shortfall(runs: pd.DataFrame, row: pd.Series) -> str:
    """Say how many of the planned repeats of a configuration have no result yet, and how many were disturbed."""
    repeats = select_repeats(runs, row)
    done = int((repeats["status"] == "completed").sum())
    have = "has" if done == 1 else "have"
    text = "" if done == len(repeats) else f" Only {done} of {len(repeats)} planned repeats {have} completed."
    disturbed = int(repeats["disturbed"].eq(True).sum())
    if not disturbed:
        return text
    which = "Its only repeat" if done == 1 else f"{disturbed} of its {done} repeats"
    return f"{text} {which} {'was' if disturbed == 1 else 'were'} disturbed by other work."
