"""Test the table of variants: the change that each causes, and whether the quality is the same within a margin."""

import pandas as pd
import pytest

from helpers.specs import make_spec
from helpers.stored_runs import FIXED
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.equivalence import pool
from howmanygpus.report.outcomes import identify
from howmanygpus.report.tables import variants as table_of_variants
from howmanygpus.report.tables.evaluations import COLUMNS as EVALUATIONS
from howmanygpus.report.tables.runs import OUTCOME, PROVENANCE

NO_EVALUATIONS = pd.DataFrame(columns=list(EVALUATIONS))


def make_runs(cells):
    """Make a table of runs. cells: (rate, quality) of the repeats, by (framework, variant)."""
    rows = []
    for (framework, variant), repeats in cells.items():
        for repeat, (rate, quality) in enumerate(repeats, start=1):
            spec = make_spec(framework=framework, variant=variant, repeat=repeat)
            row = identify(FIXED, vars(spec)) | {"status": "completed", "quality_metric": "accuracy"}
            rows.append(row | {"images_per_s": rate, "quality_last": quality})
    return pd.DataFrame(rows, columns=[*IDENTITY, *OUTCOME, *PROVENANCE])


def compute_variants(runs, variants, margin, evaluations=NO_EVALUATIONS):
    return table_of_variants.compute_variants(runs, variants, margin, evaluations)


BASE = [(100.0, 0.90), (110.0, 0.92)]


def test_a_variant_is_compared_with_the_first_by_median_rate_and_mean_quality():
    table = compute_variants(
        make_runs({("a", "stock"): BASE, ("a", "best"): [(210.0, 0.91), (210.0, 0.93)]}), ["stock", "best"], 0.01
    )
    row = table.iloc[0]
    assert len(table) == 1
    assert (row["variant"], row["base_variant"]) == ("best", "stock")
    assert row["throughput_ratio"] == pytest.approx(2.0)
    interval = (row["throughput_ratio_low"], row["throughput_ratio_high"])
    assert interval == pytest.approx((210 / 110, 210 / 100))
    assert row["quality_difference"] == pytest.approx(0.01)
    # The pooled standard deviation is sqrt(0.0002). The standard error of the difference of two means, each of two
    # repeats, is the same. Student's t has 2 degrees of freedom.
    assert row["difference_high"] == pytest.approx(0.01 + 2.92 * 0.0002**0.5, rel=1e-3)
    assert row["difference_low"] == pytest.approx(0.01 - 2.92 * 0.0002**0.5, rel=1e-3)


def judge(best, margin=0.01):
    runs = make_runs({("a", "stock"): BASE, ("a", "best"): best})
    return compute_variants(runs, ["stock", "best"], margin)["same_quality"].tolist()


def test_a_difference_outside_of_the_margin_is_another_quality():
    assert judge([(200.0, 0.70), (200.0, 0.72)]) == ["no"]


def test_an_absent_significance_is_no_equality():
    """The means are the same, but their spread is larger than the margin."""
    assert judge([(200.0, 0.90), (200.0, 0.92)]) == ["too few repeats"]
    assert judge([(200.0, 0.90), (200.0, 0.92)], margin=0.05) == ["yes"]


def test_failed_and_disturbed_repeats_are_counted():
    runs = make_runs({("a", "stock"): BASE, ("a", "best"): [(200.0, 0.9), (None, None)]})
    runs["status"] = ["completed", "completed", "completed", "out_of_memory"]
    runs["disturbed"] = [True, False, True, None]
    row = compute_variants(runs, ["stock", "best"], 0.01).iloc[0]
    assert (row["num_repeats"], row["num_failed"], row["num_disturbed"]) == (1, 1, 2)


def test_the_spread_of_seeds_is_pooled_over_configurations():
    assert pool([[0.9, 0.92], [0.5, 0.5], [0.1], [], [0.1, float("inf")]]) == (pytest.approx(0.0001**0.5), 2)
    assert pool([[0.1]]) == (0.0, 0)


def test_without_repeats_the_repeats_are_too_few():
    runs = make_runs({("a", "stock"): BASE[:1], ("a", "best"): [(200.0, 0.95)]})
    assert compute_variants(runs, ["stock", "best"], 0.01)["same_quality"].tolist() == ["too few repeats"]


def test_a_variant_that_the_base_did_not_complete_has_no_row():
    runs = make_runs({("a", "best"): BASE, ("b", "stock"): BASE})
    assert compute_variants(runs, ["stock", "best"], 0.01).empty


def test_a_variant_has_the_seconds_of_one_evaluation_and_of_its_start():
    """The base evaluates twice and the variant once in each run."""
    runs = make_runs({("a", "stock"): BASE, ("a", "late"): BASE})
    is_base = runs["variant"] == "stock"
    runs["eval_s"] = is_base.map({True: 4.0, False: 3.0})
    runs["init_s"], runs["compile_s"] = is_base.map({True: 1.0, False: 2.0}), 0.5
    evaluations = pd.concat([runs, runs[is_base]]).reindex(columns=list(EVALUATIONS))
    row = compute_variants(runs, ["stock", "late"], 0.01, evaluations).iloc[0]
    assert (row["base_evaluation_s"], row["evaluation_s"]) == (2.0, 3.0)
    assert (row["base_start_s"], row["start_s"]) == (1.5, 2.5)
    assert compute_variants(runs, ["stock", "late"], 0.01)["evaluation_s"].isna().all(), "nothing was evaluated"
