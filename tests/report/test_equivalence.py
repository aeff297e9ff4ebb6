"""Equivalence within a margin: three answers, and quantiles as in printed tables."""

import pytest

from howmanygpus.report.equivalence import compare_means, compute_t_quantile


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 6.314), (2, 2.920), (5, 2.015), (30, 1.697), (1000, 1.646)])
def test_quantiles_match_printed_tables(freedom, quantile):
    assert compute_t_quantile(freedom) == pytest.approx(quantile, abs=6e-4)


@pytest.mark.parametrize(
    ("difference", "spread", "verdict"),
    [
        (0.001, 0.001, "yes"),
        (-0.005, 0.001, "yes"),
        (0.05, 0.001, "no"),
        (-0.05, 0.001, "no"),
        # No significant difference, which does not show that there is none.
        (0.0, 0.05, "too few repeats"),
        (0.012, 0.005, "too few repeats"),
    ],
)
def test_the_whole_interval_decides(difference, spread, verdict):
    low, high, judged = compare_means(difference, spread, 4, (3, 3), 0.01)
    assert judged == verdict
    assert (low + high) / 2 == pytest.approx(difference)
    assert high - low == pytest.approx(2 * 2.132 * spread * (2 / 3) ** 0.5, rel=1e-3)


def test_without_repeats_nothing_is_decided():
    assert compare_means(0.0, 0.0, 0, (1, 1), 0.01)[2] == "too few repeats"
