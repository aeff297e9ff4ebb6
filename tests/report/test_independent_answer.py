"""The answer sets independent runs beside the best run on several devices, and never names them as the best."""

import pandas as pd
import pytest

from howmanygpus.report.answer.details import compare_independent

ROW = {"framework": "a", "input": "arrays", "precision": "fp32", "device": "d", "per_device_batch_size": 8}
RUNS = pd.DataFrame({"variant": ["together", "alone"], "independent": [None, True]})


def make_scaling(**rates: float) -> pd.DataFrame:
    """Return rows of the table scaling. rates: images per second by variant and device count, such as alone_4."""
    rows = []
    for name, rate in rates.items():
        variant, num_gpus = name.split("_")
        more = {"variant": variant, "num_gpus": int(num_gpus), "images_per_s_median": rate, "num_failed": 0}
        spread = {"device_images_per_s_min": rate / 4, "device_images_per_s_max": rate / 3}
        rows.append(ROW | more | (spread if variant == "alone" else {}))
    return pd.DataFrame(rows)


def test_as_many_independent_runs_are_compared_with_the_best():
    scaling = make_scaling(together_1=110.0, alone_1=100.0, together_4=300.0, alone_4=360.0, alone_8=900.0)
    found = compare_independent(RUNS, scaling)
    assert (found["framework"], found["num_gpus"], found["times_rate"]) == ("a", 4, pytest.approx(1.2))
    assert (found["slowest_images_per_s"], found["fastest_images_per_s"]) == (90, 120)


@pytest.mark.parametrize(
    "rates",
    [
        {"together_1": 110.0, "alone_1": 100.0},
        {"together_4": 300.0, "alone_2": 100.0},
        {"alone_4": 300.0},
        {"together_4": 300.0},
    ],
)
def test_nothing_is_compared_without_a_rival_on_several_devices(rates):
    assert compare_independent(RUNS, make_scaling(**rates)) is None


def test_a_study_of_nothing_else_compares_nothing():
    assert compare_independent(RUNS[1:], make_scaling(alone_1=100.0, alone_4=360.0)) is None
