"""
What the recommendation was chosen from: the fastest configuration of each series on each number of devices and nodes.

What the answer names is there too if it is not the fastest, such as a smaller batch that costs less.
`roles` are recommended, cheapest, fastest, other framework, what else of the series is another one (`other variant`,
`other input`, `other precision`), and next doubling, separated by commas, or `tied` for what the repeats do not tell
from the recommended configuration. `duration_s` is the training time until the target or, without a target, the seconds
that all devices need for one image. `cost` is the price until the target or of a whole run; in its place rates have
`cost_per_million`, the price of training on a million images, because whole runs may be of different length. `clock`
names the column that decides. `of` is the part of a study that is decided by itself: the model of the devices, or a
combination of a program's axes. A part without a recommendation has `refusal`. The same facts are in answer.json;
docs/answer.md has the rules.
"""

from typing import Any

import pandas as pd

from howmanygpus.report.answer.facts import Facts, Question, decide
from howmanygpus.report.columns import PLACE, SERIES, list_columns

READS = ("runs", "time_to_accuracy", "losses")
USES_METRIC = True
VALUES = ("duration_s", "images_per_s", "wall_s", "cost", "cost_per_million", "quality")
NAMES = ("series", *list_columns(SERIES, PLACE))
SIZES = ("per_device_batch_size", "accumulate")
COUNTED = ("currency", "device_seconds", "efficiency", "num_repeats", "num_disturbed")
WHERE = ("series", "num_nodes", "num_gpus", *SIZES)
"""Facts that tell configurations of one part apart."""
COLUMNS = [
    *("study", "of", "metric", "threshold", "unit", "worth_doubling", "refusal", "clock", "roles", "quality_of_guess"),
    *(*NAMES, *SIZES),
    *(f"{value}{end}" for value in VALUES for end in ("", "_low", "_high")),
    *COUNTED,
]


def tabulate(plan: dict, runs: pd.DataFrame, time_to_accuracy: pd.DataFrame, losses: pd.DataFrame) -> pd.DataFrame:
    """One row per configuration. The arguments are the tables of these names."""
    facts = decide(runs, time_to_accuracy, Question.of(plan["config"]), losses=losses)
    rows = [row for decision in facts["decisions"] for row in list_rows(decision, facts)]
    guesses = runs["quality_of_guess"].dropna()
    return pd.DataFrame(rows, columns=COLUMNS).assign(quality_of_guess=guesses.iloc[0] if len(guesses) else None)


def list_rows(decision: Facts, facts: Facts) -> list[Facts]:
    """Return the rows of one part of a study. A part without any configuration has one row, with the reason."""
    asked, roles = facts["asked"], list_roles(decision)
    is_walked = asked["deadline_h"] is None and asked["budget"] is None
    common = {
        "study": facts["study"],
        "of": decision["of"],
        "metric": decision["goal"]["metric"],
        "threshold": decision["goal"]["threshold"],
        "unit": facts["unit"],
        "worth_doubling": asked["worth_doubling"] if is_walked else None,
        "refusal": decision["refusal"],
        "clock": decision["clock"],
    }
    rows = [common | flatten(one) | {"roles": roles.get(tell(one))} for one in decision["configurations"]]
    return rows or [common]


def list_roles(decision: Facts) -> dict[tuple, str]:
    """Return what configurations are in the answer, by tell()."""
    roles = {tell(other): "tied" for other in decision["ties"]}
    for other in decision["alternatives"]:
        tie = ["tied"] if other["is_tied"] and other["num_gpus"] == decision["recommended"]["num_gpus"] else []
        roles[tell(other)] = ", ".join([*other["roles"], *tie])
    if decision["recommended"]:
        roles[tell(decision["recommended"])] = "recommended"
    return roles


def tell(one: Facts) -> tuple[Any, ...]:
    return tuple(one[name] for name in WHERE)


def flatten(one: Facts) -> Facts:
    """Return a configuration with a column for each end of its intervals."""
    row = {name: one[name] for name in (*NAMES, *SIZES)}
    if one["cost_per_million"]:
        one = one | {"cost": None}
    for value in VALUES:
        ends = one[value] or {"median": None, "low": None, "high": None}
        row |= {value: ends["median"], f"{value}_low": ends["low"], f"{value}_high": ends["high"]}
    return row | {name: one[name] for name in COUNTED}
