"""Sentences of the answer, of figures and of messages are right about a single thing."""

import pandas as pd
import pytest

from helpers.answers import DIGITS, find_line, make_facts
from howmanygpus.config.errors import ConfigError
from howmanygpus.gate.coverage import describe_layout
from howmanygpus.report.answer.batches import describe_target
from howmanygpus.report.answer.texts import render_answer
from howmanygpus.report.columns import FEWEST_NODES
from howmanygpus.report.figures.run_grid import list_disturbed
from howmanygpus.report.rows import name_count
from howmanygpus.report.tables.datasets import COLUMNS as DATASETS
from howmanygpus.report.tables.scaling import name_curve
from howmanygpus.report.words import write_configuration
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import study


@pytest.mark.parametrize(("count", "text"), [(0, "0 images"), (1, "1 image"), (2, "2 images")])
def test_one_is_singular(count, text):
    assert name_count(count, "image") == text


def test_the_data_of_one_label_and_one_channel():
    row = DIGITS | {"height": 64, "width": 64, "num_classes": 1}
    facts = make_facts({"framework": "a"}, datasets=pd.DataFrame([row], columns=list(DATASETS)))
    text = render_answer(facts, "md")
    assert find_line(text, "Data").endswith("test images of 64 x 64 pixels, 1 channel, 1 label.")
    assert "1 run planned: 1 completed." in text


def test_a_configuration_of_one_device_and_one_image():
    one = {"series": "a", "num_gpus": 1, "num_nodes": 1, "device": "cpu", "per_device_batch_size": 1, "accumulate": 1}
    one |= {"placement": FEWEST_NODES}
    assert write_configuration(one, "images") == "1 x cpu, a, 1 image per device"


def test_a_target_that_the_only_repeat_of_a_larger_batch_misses():
    base = pd.Series({"images_to_target_median": 80.0, "metric": "accuracy", "target": 0.9})
    larger = pd.Series({"images_to_target_median": None, "num_reached": 1, "num_judged": 3}, dtype=object)
    target = describe_target(base, larger)
    assert (target["num_reached"], target["num_judged"], target["times_images"]) == (1, 3, None)
    facts = make_facts({"framework": "a"})
    doubling = {"series": "a", "num_gpus": 1, "device": "cpu", "num_nodes": None, "global_batch_size": [8, 16]}
    doubling |= {"times_rate": 1.5, "times_rate_min": None, "times_rate_max": None, "target": target}
    facts["details"] |= {"doubling": doubling, "noise": {"lowest": None, "highest": None, "time_frac": None}}
    text = render_answer(facts, "md")
    assert "rate +50 % (one repeat each); 1 of 3 repeats reaches accuracy 0.9." in text
    assert "- The gradient noise scale is not known" in text


def test_a_curve_and_a_layout_of_one():
    assert name_curve("weak", 1, "images") == "weak scaling, 1 image per device"
    assert [describe_layout(*layout) for layout in ((1, 1), (2, 2))] == ["1 device", "2 devices of 2 nodes"]


def test_the_only_run_that_is_marked_as_disturbed():
    ((count, (text,)),) = list_disturbed(pd.DataFrame({"disturbed": [True]}))
    assert count == 1 and text.startswith("red edge: 1 of 1 run was disturbed;")


def test_a_batch_that_is_too_large_for_one_device():
    machine = Machine("machine.yaml", {"cpu": Device(8, 1)})
    with pytest.raises(ConfigError, match="2000 on 1 device is more than"):
        Plan({"studies": {"s": study(frameworks=["pytorch_ddp"], num_gpus=[1], per_device_batch_size=[2000])}}, machine)
