"""Sentences of the answer, of figures and of messages are right about a single thing."""

import pandas as pd
import pytest

from howmanygpus.config.errors import ConfigError
from howmanygpus.gate.judge import describe_layout
from howmanygpus.report.answer.batches import describe_cost
from howmanygpus.report.answer.names import name_configuration
from howmanygpus.report.answer.study import describe_data, describe_runs
from howmanygpus.report.figures.run_grid import list_disturbed
from howmanygpus.report.outcomes import FEWEST
from howmanygpus.report.rows import name_count
from howmanygpus.report.tables.scaling import name_curve
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import study

FINDING = {"dataset": "xrays", "input": "arrays", "num_train": 800, "num_test": 1, "height": 64, "width": 64}
FINDING |= {"channels": 1, "num_classes": 1}


@pytest.mark.parametrize(("count", "text"), [(0, "0 images"), (1, "1 image"), (2, "2 images")])
def test_one_is_singular(count, text):
    assert name_count(count, "image") == text


def test_the_data_of_one_label_and_one_test_image():
    runs = pd.DataFrame([{"started_at": None, "device": "cpu"}])
    text = describe_data(runs, pd.DataFrame([FINDING]))
    assert text.endswith(": 800 training and 1 test image of 64 x 64 pixels with 1 channel, with 1 label.")
    several = describe_data(runs, pd.DataFrame([FINDING | {"num_classes": 2, "num_test": 20, "channels": 3}]))
    assert several.endswith(": 800 training and 20 test images of 64 x 64 pixels with 3 channels, in 2 classes.")


def test_a_study_of_one_run():
    run = {"study": "s", "model": "m", "model_options": None, "dataset": "d", "input": "arrays", "status": "completed"}
    assert describe_runs(pd.DataFrame([run]), pd.DataFrame()) == "s: m on d, 1 run planned: 1 completed."


def test_a_configuration_of_one_device_and_one_image():
    row = {"series": "a", "num_gpus": 1, "device": "cpu", "placement": FEWEST, "per_device_batch_size": 1}
    assert name_configuration(pd.Series(row)) == "a on 1 cpu device x 1 image"
    assert name_configuration(pd.Series(row | {"num_gpus": 2})) == "a on 2 cpu devices x 1 image"


def test_a_target_that_the_only_repeat_of_a_larger_batch_misses():
    base = pd.Series({"images_to_target_median": 80.0, "metric": "accuracy", "target": 0.9})
    larger = pd.Series({"images_to_target_median": None, "num_reached": 0, "num_judged": 1}, dtype=object)
    assert describe_cost(base, larger) == ", and its only repeat does not reach test accuracy 0.9"
    larger = pd.Series({"images_to_target_median": None, "num_reached": 1, "num_judged": 3}, dtype=object)
    assert describe_cost(base, larger) == ", and 1 of 3 repeats reaches test accuracy 0.9"


def test_a_curve_and_a_layout_of_one():
    assert name_curve("weak", 1) == "weak scaling, 1 image per device"
    assert [describe_layout(layout) for layout in ((1, 1), (2, 2))] == ["1 device", "2 devices of 2 nodes"]


def test_the_only_run_that_is_marked_as_disturbed():
    ((count, (text,)),) = list_disturbed(pd.DataFrame({"disturbed": [True]}))
    assert count == 1 and text.startswith("red edge: 1 of 1 run was disturbed;")


def test_a_batch_that_is_too_large_for_one_device():
    machine = Machine("machine.yaml", {"cpu": Device(8, 1)})
    with pytest.raises(ConfigError, match="2000 on 1 device is more than"):
        Plan({"studies": {"s": study(frameworks=["pytorch_ddp"], num_gpus=[1], per_device_batch_size=[2000])}}, machine)
