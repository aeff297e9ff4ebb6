"""The answer sets independent runs beside the best run on several devices, and never names them as the best."""

import pandas as pd
import pytest

from howmanygpus.report.answer.independent import compare_independent, list_independent
from messages import says

ROW = {"framework": "a", "input": "arrays", "precision": "fp32", "device": "d", "per_device_batch_size": 8}


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
    (line,) = compare_independent(scaling, {"alone"})
    assert line.startswith("4 independent runs of a at once, on one device each, have 1.20 times the rate")
    assert says(line, "slowest", "90 images/s", "fastest", "120")


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
    assert compare_independent(make_scaling(**rates), {"alone"}) == []


def test_only_variants_beside_others_are_left_out_of_rankings():
    runs = pd.DataFrame({"variant": ["together", "alone"], "independent": [None, True]})
    assert list_independent(runs) == {"alone"}
    assert list_independent(runs[1:]) == list_independent(runs[:1]) == set()
