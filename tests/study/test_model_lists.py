"""A study with a list of models is one study per model; a study with one model is planned as it always was."""

import pytest

from helpers.messages import list_texts
from howmanygpus.config.errors import ConfigError
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
MODELS = ["small_cnn", "resnet44"]
ONE = study(frameworks=["pytorch_ddp"], devices=["cpu"], num_gpus=[1], repeats=2, exclude=[{"repeat": 2}])

SETTINGS = '{"dataset": "digits", "model": "small_cnn", "options": {}, "steps": 24, "warmup_steps": 2}'


def make_plan(**studies) -> Plan:
    return Plan({"studies": studies}, CPU)


def test_a_study_with_one_model_is_planned_as_before_byte_for_byte():
    plan = make_plan(s=ONE)
    assert plan.settings == {"s/pytorch_ddp/base/arrays_fp32_cpu_gpus1_batch64_repeat1": SETTINGS}
    assert plan.targets == {"s": ["s"]}


def test_each_model_of_a_list_is_the_study_that_its_name_alone_would_make():
    together = make_plan(s=ONE | {"model": MODELS})
    apart = make_plan(**{f"s_{model}": ONE | {"model": model} for model in MODELS})
    assert list(together.studies) == ["s_small_cnn", "s_resnet44"]
    for name, each in apart.studies.items():
        assert together.studies[name].describe() == each.describe()
    assert together.settings == apart.settings and together.priorities == apart.priorities
    assert together.verdicts == apart.verdicts


def test_another_model_in_a_list_changes_no_run_of_the_first():
    alone, both = make_plan(s=ONE | {"model": ["small_cnn"]}), make_plan(s=ONE | {"model": MODELS})
    assert alone.settings.items() < both.settings.items()
    assert list(alone.studies) == ["s_small_cnn"]


def test_the_name_of_the_study_is_the_target_of_all_its_models():
    plan = make_plan(s=ONE | {"model": MODELS}, other=ONE)
    assert plan.targets == {
        "s": ["s_small_cnn", "s_resnet44"],
        **{name: [name] for name in ("s_small_cnn", "s_resnet44", "other")},
    }


def test_a_list_of_models_is_warned_about_once():
    plan = make_plan(s=ONE | {"model": MODELS, "num_gpus": [1, 16], "per_device_batch_size": [8], "prefetch": 1000})
    assert len(plan.find_shortages()) == len(plan.find_doubts()) == 1
    assert list_texts(plan.find_shortages())[0].startswith("studies.s.num_gpus: 16 exceeds")


def test_an_exclusion_may_name_a_model():
    rules = [{"model": "resnet44", "per_device_batch_size": 64}, {"num_gpus": 2}]
    given = ONE | {"model": MODELS, "per_device_batch_size": [32, 64], "num_gpus": [1, 2], "exclude": rules}
    plan = make_plan(s=given | {"repeats": 1})
    sizes = {
        name: {(run.num_gpus, run.per_device_batch_size) for run in each.runs} for name, each in plan.studies.items()
    }
    assert sizes == {"s_small_cnn": {(1, 32), (1, 64)}, "s_resnet44": {(1, 32)}}


@pytest.mark.parametrize(
    ("studies", "message"),
    [
        (
            {"s": ONE | {"model": MODELS}, "s_resnet44": ONE},
            'studies.s.model[1]: "resnet44" makes a second study s_resnet44; rename one of them',
        ),
        ({"s": ONE | {"model": ["small_cnn", "vgg"]}}, 'studies.s.model: "vgg" is not a known model; choose from'),
        ({"s": ONE | {"model": []}}, "studies.s.model: [] is empty; give at least one entry"),
        ({"s": ONE | {"model": ["resnet44", "resnet44"]}}, "repeats an entry; keep each once"),
        ({"s": ONE | {"model": [5]}}, "studies.s.model[0]: 5 is not of type string; write text"),
        ({"s": ONE | {"model": 5}}, "studies.s.model: 5 is not of type string or array; write text"),
        (
            {"s": ONE | {"model": MODELS, "exclude": [{"model": "vgg"}]}},
            'studies.s.exclude[0]: {"model": "vgg"} matches no run; correct or remove it',
        ),
        (
            {"s": ONE | {"model": MODELS, "exclude": [{"model": "resnet44"}]}},
            "studies.s.exclude: nothing is left to run; remove an entry",
        ),
    ],
)
def test_wrong_lists_of_models(studies, message):
    with pytest.raises(ConfigError) as error:
        make_plan(**studies)
    assert message in str(error.value)
