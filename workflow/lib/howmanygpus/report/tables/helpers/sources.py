"""
What tables are made from besides other tables of the study, and how it is read.

A source has the name of a method of invocation.rules.products, which lists its files for the rule of a table:
`results`, records of runs and attempts; `allreduces`, records of all-reduces; `ledger`, the records of all jobs that
used devices; `published`, the published numbers to compare the study with, and their sources; `decision`, which says
why runs of an adaptive study are not done; `searches`, records of searches for the largest batch; `past_checks`, the
tables `prediction_checks` of other studies.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from howmanygpus.report.files import read_table

FAILED = ".failed"
"""Suffix of the file of a search that failed, before that of JSON."""


def read_records(paths: list[Path]) -> list[dict]:
    return [json.loads(path.read_text()) for path in paths]


def read_record(path: Path | list[Path]) -> dict | None:
    """Return the only record; None if there is none."""
    return json.loads(path.read_text()) if isinstance(path, Path) else None


def read_searches(paths: list[Path]) -> dict[str, dict]:
    """Return the records of searches by name. The file of a search that failed is older than a record beside it."""
    by_age = sorted(paths, key=lambda path: path.stem.endswith(FAILED), reverse=True)
    return {path.stem.removesuffix(FAILED): json.loads(path.read_text()) for path in by_age}


def read_tables(paths: list[Path]) -> pd.DataFrame:
    """Return the rows of tables with the same columns; an empty table without columns if there is none."""
    return pd.concat(map(read_table, paths), ignore_index=True) if paths else pd.DataFrame()


READERS: dict[str, Callable[[Any], Any]] = {
    # The folder that holds `results/`. The plan names the runs.
    "results": lambda paths: Path(),
    "allreduces": read_records,
    "ledger": read_record,
    # A parameter of the rule, because the files are the workflow's.
    "published": lambda paths: list(map(Path, paths)),
    "decision": read_record,
    "searches": read_searches,
    "past_checks": read_tables,
}
