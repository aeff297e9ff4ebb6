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
MADE_FROM_RECORDS = ("plan_runs", "write_parity_page", "tabulate_probes")
"""Rules of earlier stages whose jobs make products from the records that exist."""


def find_stage(rule: Any) -> str | None:
    """Return the stage of a rule; None for a target, whose job does nothing."""
    return PRODUCTS if rule.name in MADE_FROM_RECORDS else STAGES.get(Path(str(rule.snakefile)).stem)
