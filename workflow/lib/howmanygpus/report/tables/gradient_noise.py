"""
Each measurement of the gradient noise of a run, and the estimates from it.

A measurement has the squared norms of the gradients of small batches (their mean) and of the big batch they make up.
gradient_squared and variance_trace estimate |G|^2, the squared norm of the true gradient, and S, the sum of the
variances of one image's gradient, without bias. Their ratio S/|G|^2 is the noise scale: the number of images at which
noise and gradient are equally large. One measurement is too few for a ratio; batch_sizes.tsv has that of the means.
Source: McCandlish et al. 2018, arXiv:1812.06162, appendix A.1.
"""

from pathlib import Path

import pandas as pd

from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.outcomes import Outcome, read_outcomes

READS = ("results",)
IS_MERGED = True
CATEGORY = "More"
MEASURED = ("epoch", "step", "images_small", "images_big", "squared_norm_small", "squared_norm_big", "elapsed_s")
COLUMNS = (*IDENTITY, *MEASURED, "gradient_squared", "variance_trace")


def tabulate(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per measurement of the runs that completed or diverged. results: the folder that holds `results/`."""
    outcomes = [outcome for outcome in read_outcomes(plan, results) if outcome.was_trained]
    rows = [row for outcome in outcomes for row in _list_measurements(outcome)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _list_measurements(outcome: Outcome) -> list[dict]:
    events = [event for event in outcome.read_events() if event["event"] == "gradient_noise"]
    return [
        outcome.identity | {key: event[key] for key in MEASURED} | estimate(event)
        for event in events
        if event["squared_norm_small"] is not None and event["squared_norm_big"] is not None
    ]


def estimate(event: dict) -> dict[str, float]:
    """Return the unbiased estimates of |G|^2 and of S from one measurement."""
    small, big = event["images_small"], event["images_big"]
    norm_small, norm_big = event["squared_norm_small"], event["squared_norm_big"]
    return {
        "gradient_squared": (big * norm_big - small * norm_small) / (big - small),
        "variance_trace": (norm_small - norm_big) / (1 / small - 1 / big),
    }
