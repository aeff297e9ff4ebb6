"""The stages of the workflow as a dry run names them."""

from pathlib import Path
from typing import Any

RUNS, GATE, PRODUCTS = "runs", "parity gate", "tables and figures"
SEARCHES = "largest batches"
STAGES = {
    "environments": "environments",
    "prepare": "data and weights",
    "weights": "data and weights",
    "own_models": "data and weights",
    "probe": "probes",
    "parity": GATE,
    "largest": SEARCHES,
    "train": RUNS,
    "tables": PRODUCTS,
    "figures": PRODUCTS,
}
"""Names in the order of the work, by the file in workflow/rules/ that defines a rule."""
BEFORE_RUNS = ("environments", "data and weights", "probes", GATE, SEARCHES)
MEASURED = ("probes", GATE, SEARCHES, RUNS)
"""Stages whose jobs go one at a time on one machine."""


def find_stage(rule: Any) -> str | None:
    """Return the stage of a rule; None for a target, whose job does nothing."""
    stage = STAGES.get(Path(str(rule.snakefile)).stem)
    return PRODUCTS if stage == RUNS and rule.name != "train" else stage
