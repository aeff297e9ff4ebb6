"""
Tables of a study, one module each.

A module defines COLUMNS and `tabulate(plan, **inputs)`, which returns a data frame with these columns. `plan` is the
content of results/plans/{study}.json. READS names what it is made from: other tables of the study, which it gets by
name; `results`, the folder that holds `results/`, for tables made from runs and attempts; `allreduces`, the records of
the preflight. USES_METRIC, if it is true, says that the study's metric is computed for it. IS_MERGED, if it is true,
has the tables of all studies joined in results/tables/. NEEDS_PREFLIGHT: made if the preflight has measured something.
"""

import importlib
from pathlib import Path

from howmanygpus.report.modules import describe_module, list_modules

FOLDER = Path(__file__).parent
OPTIONAL = {"USES_METRIC": False, "IS_MERGED": False, "NEEDS_PREFLIGHT": False}
OTHERS = ("results", "allreduces")
"""What tables are made from besides other tables."""


def list_tables(preflight: bool = True) -> list[str]:
    return [name for name in list_modules(FOLDER) if preflight or not describe_table(name)["NEEDS_PREFLIGHT"]]


def list_merged() -> list[str]:
    return [name for name in list_tables() if describe_table(name)["IS_MERGED"]]


def load_table(name: str):
    return importlib.import_module(f"{__name__}.{name}")


def describe_table(name: str) -> dict:
    """The constants of a table's module."""
    return describe_module(FOLDER / f"{name}.py", ("READS",), OPTIONAL)


def list_inputs(name: str) -> list[str]:
    """Tables of the same study that a table is made from."""
    return [each for each in describe_table(name)["READS"] if each not in OTHERS]
