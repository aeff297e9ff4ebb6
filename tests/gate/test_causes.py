"""A failed verdict on a user's own model names the likeliest cause."""

import pytest

from howmanygpus.gate import causes

CHECKS = (
    "weights",
    "repeatable",
    "independent",
    "exchange",
    "evaluation",
    "loss",
    "averaging",
    "gradients",
    "losses",
    "replicas",
)


def make_rows(devices: int, **failed: float) -> list[dict]:
    """Return the rows of a layout. failed: values of the failed checks."""
    return [
        {"devices": devices, "check": check, "value": failed.get(check, 0.0), "passed": check not in failed}
        for check in CHECKS
    ]


SUM_OF_THREE = causes.SUMMED.format(devices=3, factor=3.01)


@pytest.mark.parametrize(
    ("rows", "cause"),
    [
        ([], ""),
        (make_rows(1) + make_rows(3), ""),
        (make_rows(1) + make_rows(3, averaging=2.01, gradients=2.0, losses=1.0), SUM_OF_THREE),
        (make_rows(1) + make_rows(3, averaging=0.6, gradients=0.7, replicas=1), causes.DRIFTING),
        (make_rows(1) + make_rows(3, replicas=1), causes.DRIFTING),
        (make_rows(1) + make_rows(3, loss=0.01, gradients=0.7), causes.MIXING),
        (make_rows(1, loss=0.01, losses=0.1) + make_rows(3, loss=0.02), causes.BY_CHECK["loss"]),
        (make_rows(1) + make_rows(3, exchange=2, gradients=0.1), causes.BY_CHECK["exchange"]),
        (make_rows(1) + make_rows(3, exchange=2, averaging=2.01), SUM_OF_THREE),
        (make_rows(1) + make_rows(3, exchange=2, averaging=0.6, replicas=1), causes.DRIFTING),
        (make_rows(1, averaging=2.0) + make_rows(3, averaging=0.5), causes.BY_CHECK["averaging"]),
        (make_rows(1, repeatable=0.5, loss=0.1), causes.BY_CHECK["repeatable"]),
    ],
)
def test_which_checks_fail_on_how_many_devices_tells_the_cause(rows, cause):
    assert causes.name_cause(rows) == cause


def test_a_value_that_is_missing_names_no_sum():
    rows = make_rows(2, averaging=1.0)
    rows = [row | {"value": None} if row["check"] == "averaging" else row for row in rows]
    assert causes.name_cause(rows) == causes.MIXING
