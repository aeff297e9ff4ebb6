"""Learning rates of single frameworks and variants, schedules by steps, and accumulation, as the planner sees them."""

import re

import pandas as pd
import pytest
import yaml

from helpers.first_page import describe
from helpers.messages import list_texts
from howmanygpus.config.errors import ConfigError
from howmanygpus.report.rows import describe_own_rates, name_own_rates
from howmanygpus.report.words import write_configuration
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import ROOT, study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
TWO = {"frameworks": ["pytorch_ddp", "chainer_mn"]}


def make_plan(**changes) -> Plan:
    return Plan({"studies": {"s": study(frameworks=["pytorch_ddp"], devices=["cpu"]) | changes}}, CPU)


def make_specs(plan: Plan) -> list[dict]:
    planned = plan.studies["s"]
    return [planned.spec(run) for run in planned.runs]


STEPS = {"lr_schedule": "step", "lr_step_epochs": [1, 2]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"optimizer": {"lr_schedule": "step"}},
            "studies.s.optimizer.lr_step_epochs: [] names no epoch at which lr_schedule: step lowers the rate; give",
        ),
        (
            {"optimizer": {"lr_step_epochs": [3], "lr_schedule": "cosine"}},
            "studies.s.optimizer.lr_step_epochs: [3] belongs to lr_schedule: step, not to cosine; write",
        ),
        (
            {"optimizer": STEPS | {"lr_step_epochs": [6, 3]}},
            "studies.s.optimizer.lr_step_epochs: [6, 3] is not in rising order; write [3, 6]",
        ),
        (
            {"variants": {"v": {"optimizer": {"lr_schedule": "step"}}}},
            "studies.s.optimizer.lr_step_epochs: [] names no epoch",
        ),
        (
            {"variants": {"v": {"optimizer": STEPS | {"lr_warmup_epochs": 1.5}}}},
            "studies.s.variants.v.optimizer.lr_step_epochs: [1, 2] begins within the warm-up of 1.5 epochs of pytorch_",
        ),
        ({"optimizer": {"lr_step_epochs": [0]}}, "studies.s.optimizer.lr_step_epochs[0]: 0 is too small; give more"),
        ({"optimizer": {"lr_step_factor": 1}}, "studies.s.optimizer.lr_step_factor: 1 is too large; give less than 1"),
        ({"optimizer": {"name": "adamv"}}, 'studies.s.optimizer.name: "adamv" is not known here; did you mean adam'),
        (
            {"optimizer": {"weight_decay_on": "kernels"}},
            'weight_decay_on: "kernels" is not known here; choose from all',
        ),
        (
            {"optimizer": {"by_framework": {"chainer_mn": {"lr_scaling": "none"}}}},
            'studies.s.optimizer.by_framework: "chainer_mn" is not one of the study\'s frameworks; choose',
        ),
        (
            {"optimizer": {"by_framework": {"pytorch_ddp": {"momentum": 0.5}}}},
            'studies.s.optimizer.by_framework.pytorch_ddp: unknown key "momentum"; choose from learning_rate, lr_',
        ),
        ({"optimizer": {"by_framework": {"pytorch_ddp": {}}}}, "by_framework.pytorch_ddp: {} is empty; give at least"),
        ({"accumulate": 0}, "studies.s.accumulate: 0 is too small; give at least 1"),
        (
            {"accumulate": 2, "scaling": "both"},
            "studies.s.accumulate: 2 would make two runs of the same path with scaling: both; make one study of weak",
        ),
        (
            {"accumulate": 100},
            "studies.s.per_device_batch_size: 64 on 1 device, accumulated 100 times, is more than the 1437 training",
        ),
        (
            {"accumulate": 10**12, "scaling": "strong"},
            "studies.s.per_device_batch_size: 64 on 1 device, accumulated 1000000000000 times, is more than",
        ),
        (
            {"accumulate": 4, "scaling": "strong", "per_device_batch_size": [32, 48], "num_gpus": [1, 3]},
            "studies.s.num_gpus: 3 does not divide the global batch of 128 images under strong scaling; choose",
        ),
        (
            {"accumulate": 3, "scaling": "strong", "per_device_batch_size": [12, 18], "num_gpus": [1, 2]},
            "studies.s.per_device_batch_size: [12, 18] makes two different steps of 9 images at a time on 2 devices",
        ),
    ],
)
def test_wrong_keys_of_learning_are_refused(changes, message):
    with pytest.raises(ConfigError) as error:
        make_plan(**changes)
    assert message in str(error.value)


def test_a_step_that_no_run_reaches_is_doubtful():
    (doubt,) = list_texts(make_plan(epochs=2, steps=None, optimizer=STEPS).find_doubts())
    assert doubt.startswith("studies.s.optimizer.lr_step_epochs: 2 is not reached in the 2 epochs of a run of variant")
    assert make_plan(epochs=3, steps=None, optimizer=STEPS).find_doubts() == []


def test_a_variant_changes_only_the_keys_of_the_optimizer_that_it_names():
    variants = {"base": {}, "slow": {"optimizer": {"momentum": 0.5}}}
    plan = make_plan(optimizer={"learning_rate": 0.3, "lr_schedule": "cosine"}, variants=variants, num_gpus=[1])
    found = {spec["variant"]: spec["optimizer"] for spec in make_specs(plan)}
    assert found["slow"] == found["base"] | {"momentum": 0.5}
    assert found["base"]["learning_rate"] == 0.3


def test_another_schedule_of_a_variant_leaves_the_steps_of_the_study_unused():
    variants = {"base": {}, "smooth": {"optimizer": {"lr_schedule": "cosine"}}}
    assert len(make_plan(optimizer=STEPS, variants=variants, num_gpus=[1]).runs) == 2


def test_a_framework_can_have_learning_rates_of_its_own():
    own = {"chainer_mn": {"lr_scaling": "none", "lr_warmup_epochs": 0}}
    common = {"learning_rate": 0.3, "lr_warmup_epochs": 2}
    plan = make_plan(**TWO, optimizer=common | {"by_framework": own}, num_gpus=[2])
    ddp, chainer = (spec["optimizer"] for spec in make_specs(plan))
    assert (ddp["lr_scaling"], ddp["lr_warmup_epochs"]) == ("linear", 2)
    assert chainer == ddp | own["chainer_mn"] and "by_framework" not in chainer
    without = make_plan(**TWO, optimizer=common, num_gpus=[2])
    changed = {path for path, text in plan.settings.items() if text != without.settings[path]}
    assert {path.split("/")[1] for path in changed} == {"chainer_mn"}, "the other framework's runs stay valid"


def test_accumulation_multiplies_the_global_batch_of_weak_scaling():
    specs = make_specs(make_plan(accumulate=3, num_gpus=[1, 2], per_device_batch_size=[8]))
    keys = ("num_gpus", "per_device_batch_size", "accumulate", "global_batch_size")
    assert sorted(tuple(spec[key] for key in keys) for spec in specs) == [(1, 8, 3, 24), (2, 8, 3, 48)]


def test_under_strong_scaling_more_devices_accumulate_less():
    plan = make_plan(accumulate=4, num_gpus=[1, 2, 4, 8], per_device_batch_size=[16], scaling="strong")
    assert plan.studies["s"].curves == {"strong": [64]}
    keys = ("num_gpus", "per_device_batch_size", "accumulate", "global_batch_size")
    found = sorted(tuple(spec[key] for key in keys) for spec in make_specs(plan))
    assert found == [(1, 16, 4, 64), (2, 16, 2, 64), (4, 16, 1, 64), (8, 8, 1, 64)]
    (run,) = [run for run in plan.runs.values() if run.num_gpus == 2]
    assert plan.studies["s"].num_images(run) == 64 * make_specs(plan)[0]["steps"]


def test_the_answer_names_accumulated_batches():
    one = {
        "series": "pytorch_ddp",
        "num_gpus": 2,
        "num_nodes": 1,
        "placement": "fewest nodes",
        "device": "cuda",
        "per_device_batch_size": 16,
    }
    assert write_configuration(one | {"accumulate": 1}, "images") == "2 x cuda, pytorch_ddp, 16 images per device"
    assert write_configuration(one | {"accumulate": 4}, "images") == "2 x cuda, pytorch_ddp, 4 x 16 images per device"


def read_example(name: str) -> dict:
    text = (ROOT / "config" / "README.md").read_text()
    return yaml.safe_load(re.search(rf"<!-- example: {name} -->\n```yaml\n(.*?)```", text, re.DOTALL)[1])


def test_the_examples_of_the_documentation_are_planned_as_it_says():
    accumulated = make_specs(make_plan(**read_example("accumulate")))
    keys = ("num_gpus", "accumulate", "per_device_batch_size", "global_batch_size")
    found = sorted(tuple(spec[key] for key in keys) for spec in accumulated)
    assert found == [(1, 4, 64, 256), (2, 2, 64, 256), (4, 1, 64, 256), (8, 1, 32, 256)]
    specs = make_specs(make_plan(num_gpus=[1], epochs=9, steps=None, **read_example("by_framework")))
    assert [spec["optimizer"]["lr_scaling"] for spec in specs] == ["linear", "none"]


def test_runs_that_accumulate_nothing_keep_their_settings():
    assert make_plan(accumulate=1, optimizer={"by_framework": {}}).settings == make_plan().settings
    assert "accumulate" not in "".join(make_plan().settings.values())


OWN = {"chainer_mn": {"lr_scaling": "none", "learning_rate": 0.1}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ""),
        ({"optimizer": {"by_framework": {"chainer_mn": {"learning_rate": 0.1}}}}, ""),
        ({"optimizer": {"by_framework": {each: {"lr_scaling": "none"} for each in TWO["frameworks"]}}}, ""),
        ({"optimizer": {"by_framework": OWN}}, "chainer_mn (lr_scaling none)"),
        (
            {"variants": {"base": {}, "slow": {"optimizer": {"by_framework": OWN, "learning_rate": 0.01}}}},
            "chainer_mn (lr_scaling none, learning_rate 0.1)",
        ),
    ],
)
def test_the_answer_says_once_if_frameworks_learn_by_different_rates(changes, expected):
    planned = make_plan(**TWO | changes).studies["s"]
    names = [(run.framework, run.variant) for run in planned.runs]
    runs = pd.DataFrame(names, columns=["framework", "variant"])
    runs = runs.assign(own_rates=[describe_own_rates(planned.config, *pair) for pair in names])
    assert name_own_rates(runs) == expected


def test_the_report_states_how_a_study_learns_where_it_differs_from_the_default():
    optimizer = STEPS | {"weight_decay": 0.1, "weight_decay_on": "weights", "by_framework": OWN}
    network = {"model": "resnet44", "model_options": {"blocks": 1, "width": 8}}
    changes = {"optimizer": optimizer, "label_smoothing": 0.1, "accumulate": 2} | network
    text, plain = (describe(make_plan(**TWO | each).studies["s"].config) for each in (changes, {}))
    for words in (
        *("resnet44 (blocks 1, width 8) trained on", "2 such batches for one step, weak", "label smoothing 0.1."),
        *("then step (times 0.1 after epoch 1, 2);", "weight decay 0.1 (not of biases and normalisation layers)"),
        "Otherwise only in chainer_mn: lr_scaling none, learning_rate 0.1. Augmentation",
    ):
        assert words in text, text
        assert words not in plain
    assert "small_cnn trained on" in plain and "weight decay 0. Augmentation" in plain
