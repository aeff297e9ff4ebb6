"""
Percentiles of the seconds of a step, over all measured steps of each run, as the first process timed them.

The mean of a run hides rare slow steps, such as those that wait for input.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.published import is_fair
from howmanygpus.report.tables.runs import list_measured, list_steps

READS = ("runs", "results")
IS_MERGED = True
CATEGORY = "More"
PERCENTILES = {f"step_s_p{percent:02}": percent for percent in (5, 25, 50, 75, 95, 99)}
COLUMNS = (*IDENTITY, "disturbed", "is_outlier", "num_steps", *PERCENTILES, "step_s_max", "run_dir")


def tabulate(plan: dict, runs: pd.DataFrame, results: Path = Path()) -> pd.DataFrame:
    """One row per run whose steps are all known. runs: the table of that name; results: folder that holds `results/`.

    A user's program may report several steps at once, whose single times are then unknown.
    """
    known = runs[is_fair(runs) & runs["images_per_s"].notna() & runs["step_s_median"].notna()]
    rows = []
    for run in known.to_dict("records"):
        lines = (results / run["run_dir"] / "events.jsonl").read_text().splitlines()
        step_s = list_steps(list_measured([json.loads(line) for line in lines]))
        if step_s is not None:
            percentiles = dict(zip(PERCENTILES, np.percentile(step_s, list(PERCENTILES.values())), strict=True))
            rows.append(run | {"num_steps": len(step_s), **percentiles, "step_s_max": step_s.max()})
    return pd.DataFrame(rows, columns=list(COLUMNS))
