"""Rates that follow the clock on the wall are a trend, and chance is none."""

import numpy as np
import pandas as pd
import pytest

from helpers.specs import make_spec
from helpers.stored_runs import FIXED
from howmanygpus.report.drift import compute_relative_rates, describe_drift, measure_drift
from howmanygpus.report.outcomes import identify

FIRST = pd.Timestamp("2026-11-22T21:00:00+00:00")


def make_runs(num_configurations, num_repeats, change, seed=0, sigma=0.005, in_order=False):
    """Make runs in random order over three hours, whose rates change by this factor. in_order: repeats side by side."""
    generator = np.random.default_rng(seed)
    cells = [(number, repeat) for number in range(num_configurations) for repeat in range(1, num_repeats + 1)]
    order = range(len(cells)) if in_order else generator.permutation(len(cells))
    rows = []
    for place, cell in enumerate(order):
        number, repeat = cells[cell]
        share = place / (len(cells) - 1)
        rate = 100 * (number + 1) * change**share * generator.lognormal(0, sigma)
        identity = identify(FIXED, vars(make_spec(framework=f"f{number}", repeat=repeat)))
        start = (FIRST + pd.Timedelta(hours=3 * share)).isoformat()
        rows.append(identity | {"images_per_s": rate, "started_at": start})
    return pd.DataFrame(rows)


def measure(*arguments, **options):
    return measure_drift(compute_relative_rates(make_runs(*arguments, **options)))


@pytest.mark.parametrize(("change", "sign"), [(0.9, -1), (1.1, 1)])
def test_a_drift_is_found_with_its_sign_and_size(change, sign):
    drift = measure(8, 3, change)
    assert drift.is_trend and drift.p < 0.001
    assert sign * drift.correlation > 0.7
    assert drift.change == pytest.approx(change - 1, abs=0.02) and drift.hours == pytest.approx(3)
    assert f"of {drift.num_runs} runs, p < 0.001" in describe_drift(drift)


def test_a_trend_of_chance_is_as_frequent_as_its_limit():
    trends = [measure(4, 3, 1.0, seed=seed).is_trend for seed in range(60)]
    assert np.mean(trends) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)


def test_faster_configurations_that_run_later_are_no_drift():
    """Each rate is compared with its own configuration."""
    assert not measure(8, 3, 1.0, in_order=True).is_trend


def test_an_outlier_is_no_drift():
    runs = make_runs(8, 3, 1.0)
    runs.loc[20, "images_per_s"] *= 0.3
    assert not measure_drift(compute_relative_rates(runs)).is_trend


def test_without_repeats_nothing_is_said():
    assert measure(8, 1, 0.5) is None
    runs = make_runs(3, 2, 1.0, sigma=0.0)
    drift = measure_drift(compute_relative_rates(runs))
    assert drift.p == 1 and not drift.is_trend
    assert measure_drift(compute_relative_rates(runs.assign(started_at=FIRST.isoformat()))).p == 1


def test_the_test_is_deterministic():
    assert measure(5, 3, 0.98) == measure(5, 3, 0.98)
