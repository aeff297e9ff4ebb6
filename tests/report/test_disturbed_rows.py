"""What a run recorded of other work on the machine stands in every table that figures and the answer read."""

import pytest

from helpers.specs import make_spec
from helpers.stored_runs import QUALITY, collect, plan_of, store_run
from howmanygpus.measure.spec import RunSpec
from howmanygpus.report.tables import losses
from howmanygpus.report.tables.scaling import compute_scaling
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from howmanygpus.report.thresholds import summarize_time_to_accuracy
from howmanygpus.study.runs import HOW

BUSY = {"other_cpu_frac": 0.5, "other_gpu_processes": None}
UNKNOWN = {"other_cpu_frac": None, "other_gpu_processes": None}


@pytest.fixture
def plan(tmp_path):
    """A plan of repeats that were disturbed, alone, not looked at, and disturbed without completing."""
    specs = [make_spec(repeat=repeat) for repeat in (1, 2, 3, 4)]
    store_run(tmp_path, "run0", specs[0], disturbance=BUSY)
    store_run(tmp_path, "run1", specs[1])
    store_run(tmp_path, "run2", specs[2], disturbance=UNKNOWN)
    store_run(tmp_path, "run3", specs[3], status="diverged", reason="training loss is nan", disturbance=BUSY)
    return plan_of(*specs)


def test_every_table_of_runs_says_which_were_disturbed(plan, tmp_path):
    runs, evaluations = collect(plan, tmp_path)
    assert runs["disturbed"].tolist()[:2] == [True, False]
    assert runs["disturbed"].isna().tolist()[2:] == [True, True], "a run that did not complete has no rate to disturb"
    (curve,) = compute_scaling(runs, {"weak": [8]}, {}).to_dict("records")
    assert (curve["num_repeats"], curve["num_failed"], curve["num_disturbed"]) == (3, 1, 1)
    times = compute_time_to_accuracy(runs, evaluations, QUALITY)
    assert times["disturbed"].eq(True).tolist() == [True] * 2 + [False] * 6
    assert summarize_time_to_accuracy(times)["num_disturbed"].tolist() == [1, 1]
    windows = losses.tabulate(plan, tmp_path)
    assert windows["disturbed"].tolist() == [True, False, None, True], "its losses are shown nevertheless"


def test_keys_that_do_not_change_the_work_are_keys_of_a_run():
    """A key that was renamed would separate the runs of all frameworks, and none would be compared."""
    assert {*RunSpec.__dataclass_fields__} >= {*HOW}
