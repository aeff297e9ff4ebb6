"""Training loss over the first epoch of every run, window by window."""

import json
from pathlib import Path

import pandas as pd

from benchreport.runs import IDENTITY, RUNS

LOSSES = (*IDENTITY, "last_step", "loss")


def collect_losses(plan: dict, results: Path = Path()) -> pd.DataFrame:
    """One row per window of the first epoch of each run that has a record: its last step and its mean loss.

    plan: the content of results/plans/{study}.json; results: the folder that holds `results`.
    """
    rows = []
    for path, planned in plan["runs"].items():
        run_dir = results / RUNS / path
        if not (run_dir / "run.json").exists():
            continue
        identity = {key: planned["spec"][key] for key in IDENTITY}
        for line in (run_dir / "events.jsonl").read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "window" and event["epoch"] == 1:
                rows.append(
                    identity | {"last_step": event["first_step"] + event["num_steps"] - 1, "loss": event["loss"]}
                )
    return pd.DataFrame(rows, columns=list(LOSSES))
