"""Test the table of variants: the change that each causes, and whether seeds alone can explain the change."""

import pandas as pd
import pytest

from howmanygpus.report.tables.runs import IDENTITY, OUTCOME, PROVENANCE
from howmanygpus.report.tables.variants import compute_variants, pool_spread_of_seeds
from specs import make_spec


def make_runs(cells):
    """Make a table of runs. cells: (rate, quality) of the repeats, by (framework, variant)."""
    rows = []
    for (framework, variant), repeats in cells.items():
        for repeat, (rate, quality) in enumerate(repeats, start=1):
            spec = make_spec(framework=framework, variant=variant, repeat=repeat)
            row = {key: getattr(spec, key) for key in IDENTITY} | {"status": "completed", "quality_metric": "accuracy"}
            rows.append(row | {"images_per_s": rate, "quality_last": quality})
    return pd.DataFrame(rows, columns=[*IDENTITY, *OUTCOME, *PROVENANCE])


BASE = [(100.0, 0.90), (110.0, 0.92)]


def test_a_variant_is_compared_with_the_first_by_median_rate_and_mean_quality():
    table = compute_variants(
        make_runs({("a", "stock"): BASE, ("a", "best"): [(210.0, 0.91), (210.0, 0.93)]}), ["stock", "best"]
    )
    row = table.iloc[0]
    assert len(table) == 1
    assert (row["variant"], row["base_variant"]) == ("best", "stock")
    assert row["throughput_ratio"] == pytest.approx(2.0)
    assert row["quality_difference"] == pytest.approx(0.01)
    # The pooled standard deviation is sqrt(0.0002). The standard error of the difference of two means, each of two
    # repeats, is the same.
    assert row["quality_tolerance"] == pytest.approx(3 * 0.0002**0.5)
    assert row["same_quality"] == "yes"


def test_a_difference_that_seeds_do_not_explain_is_another_quality():
    runs = make_runs({("a", "stock"): BASE, ("a", "best"): [(200.0, 0.80), (200.0, 0.82)]})
    assert compute_variants(runs, ["stock", "best"])["same_quality"].tolist() == ["no"]


def test_the_spread_of_seeds_is_pooled_over_configurations():
    runs = make_runs({("a", "stock"): BASE, ("b", "stock"): [(1.0, 0.5), (1.0, 0.5)], ("c", "stock"): [(1.0, 0.1)]})
    assert pool_spread_of_seeds(runs) == pytest.approx(0.0001**0.5)


def test_without_repeats_nothing_is_said_of_quality():
    runs = make_runs({("a", "stock"): BASE[:1], ("a", "best"): [(200.0, 0.95)]})
    assert compute_variants(runs, ["stock", "best"])["same_quality"].isna().all()


def test_a_variant_that_the_base_did_not_complete_has_no_row():
    runs = make_runs({("a", "best"): BASE, ("b", "stock"): BASE})
    assert compute_variants(runs, ["stock", "best"]).empty
