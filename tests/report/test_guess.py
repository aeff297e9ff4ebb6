"""The quality of a guess by the frequency of the classes stands beside the quality in every table that has one."""

import numpy as np
import pandas as pd
import pytest

from helpers.specs import make_spec
from helpers.stored_runs import QUALITY, plan_of, store_run
from howmanygpus.report.tables import evaluations, losses, runs
from howmanygpus.report.tables.datasets import COLUMNS as DATASETS
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from howmanygpus.report.tables.variants import compute_variants

GUESSES = pd.DataFrame(
    [{"input": "arrays", "quality_of_guess": 0.3}, {"input": "png", "quality_of_guess": None}], columns=list(DATASETS)
)
"""The plan has two inputs. The prepared images of one of them were deleted."""


@pytest.fixture
def tables(tmp_path):
    """Return the tables of runs and evaluations of two variants, and of a run on the other input."""
    specs = [make_spec(variant="base"), make_spec(variant="best"), make_spec(variant="base", input="png")]
    for number, spec in enumerate(specs):
        store_run(tmp_path, f"run{number}", spec)
    plan = plan_of(*specs)
    evaluated = evaluations.tabulate(plan, GUESSES, tmp_path)
    return runs.tabulate(plan, evaluated, losses.tabulate(plan, tmp_path), tmp_path), evaluated


def find_guesses(table):
    return {each: rows["quality_of_guess"].dropna().unique().tolist() for each, rows in table.groupby("input")}


def test_each_table_with_a_quality_has_the_quality_of_a_guess(tables):
    of_runs, evaluated = tables
    times = compute_time_to_accuracy(of_runs, evaluated, QUALITY)
    for table in (of_runs, evaluated, times):
        assert find_guesses(table) == {"arrays": [0.3], "png": []}
    assert evaluated["metric"].eq("accuracy").all()
    variants = compute_variants(of_runs, ["base", "best"], 0.01, evaluated)
    assert variants["quality_of_guess"].tolist() == [0.3] and np.isfinite(variants["quality"]).all()
