"""`predict` names device counts that no run has, except for the largest with `check`."""

from types import SimpleNamespace

import pytest

from helpers.messages import says
from howmanygpus.config.errors import ConfigError
from howmanygpus.invocation.rules.products import ProductRules, list_allreduces, list_gradient_allreduces
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import study

MACHINE = Machine("machine.yaml", {"cpu": Device(8, 1), "gpu": Device(4, 1, kind="cuda", max_nodes=4)})
PATTERNS = {"image_shape": [40, 40, 3], "num_classes": 3, "num_train": 4096, "num_test": 30}
DATASETS = {"patterns": {"source": "patterns", "options": PATTERNS}}


def make_study(**changes) -> dict:
    common = {"dataset": "patterns", "model": "resnet44", "model_options": {"blocks": 1}, "devices": ["gpu"]}
    common |= {"frameworks": ["pytorch_ddp"], "per_device_batch_size": [8], "num_gpus": [1, 2, 4]}
    return study(**common | changes)


def make_plan(**changes) -> Plan:
    return Plan({"studies": {"s": make_study(**changes)}, "datasets": DATASETS}, MACHINE)


def count(plan: Plan) -> list[int]:
    return sorted({run.num_gpus for run in plan.studies["s"].runs})


def test_predicted_counts_have_no_run_and_change_none():
    plain, predicted = make_plan(), make_plan(predict={"num_gpus": [8, 64]})
    assert plain.settings == predicted.settings and "predict" not in plain.studies["s"].describe()
    assert predicted.studies["s"].describe()["predict"] == [
        {"device": "gpu", "num_gpus": 8, "num_nodes": 2},
        {"device": "gpu", "num_gpus": 64, "num_nodes": 16},
    ]


def test_counts_of_a_program_can_be_predicted():
    given = {"program": {"command": "echo {num_gpus}"}, "devices": ["gpu"], "num_gpus": [1, 2, 4]}
    plan = Plan({"studies": {"s": given | {"predict": {"num_gpus": [8]}}}}, MACHINE)
    assert plan.studies["s"].describe()["predict"] == [{"device": "gpu", "num_gpus": 8, "num_nodes": 2}]


def test_numbers_of_nodes_are_those_that_are_asked_for():
    asked = make_plan(predict={"num_gpus": [8, 12], "num_nodes": [2, 8]}).studies["s"].describe()["predict"]
    assert [(each["num_gpus"], each["num_nodes"]) for each in asked] == [(8, 2), (8, 8), (12, 2)]


def test_check_measures_the_largest_count_that_the_machine_has():
    plan = make_plan(predict={"num_gpus": [8, 16, 64], "check": True})
    assert count(plan) == [1, 2, 4, 16]
    both = make_plan(predict={"num_gpus": [8, 16], "check": True}, devices=["cpu", "gpu"])
    found = {(run.device, run.num_gpus) for run in both.studies["s"].runs if run.num_gpus > 4}
    assert found == {("cpu", 8), ("gpu", 16)}


def test_the_allreduce_is_measured_on_predicted_counts_that_the_machine_has():
    """Nothing is trained on two nodes, and the exchange there is known."""
    planned = make_plan(predict={"num_gpus": [8, 64]}).studies["s"]
    assert list_allreduces(planned.config, planned.runs, planned.predicted_at_hand) == [
        f"results/probe/gpu_gpus{count}.json" for count in (2, 4, 8)
    ]
    gradients = list_gradient_allreduces(planned, planned.runs)
    assert [name.split("_resnet")[0] for name in gradients] == [f"results/probe/gpu_gpus{count}" for count in (2, 4, 8)]
    assert not list_gradient_allreduces(make_plan().studies["s"], make_plan().studies["s"].runs)


@pytest.mark.parametrize(
    ("predict", "parts"),
    [
        ({"num_gpus": [8, 4]}, ["studies.s.predict.num_gpus[1]", "4", "remove it"]),
        ({"num_gpus": [64], "check": True}, ["studies.s.predict.check", "machine.yaml", "remove check"]),
        ({"num_gpus": []}, ["studies.s.predict.num_gpus"]),
        ({"check": True}, ["studies.s.predict", "num_gpus"]),
    ],
)
def test_what_cannot_be_predicted_is_refused(predict, parts):
    with pytest.raises(ConfigError) as error:
        make_plan(predict=predict)
    assert says(str(error.value), *parts)


def test_all_devices_leave_nothing_to_check():
    with pytest.raises(ConfigError) as error:
        make_plan(num_gpus="auto", predict={"num_gpus": [64], "check": True})
    assert says(str(error.value), "studies.s.predict.check", "auto", "remove it")


def test_checks_of_another_study_are_read_without_training_it(tmp_path):
    """They are read if its runs exist, or if the call makes all studies anyway."""
    predict = {"predict": {"num_gpus": [8]}}
    studies = {"own": make_study(**predict), "other": make_study(**predict), "plain": make_study()}
    plan = Plan({"studies": studies, "datasets": DATASETS}, MACHINE)
    alone, of_all = (ProductRules(plan, lambda: False, lambda makes=makes: makes) for makes in (False, True))
    alone.root = of_all.root = tmp_path
    own, other = (SimpleNamespace(study=name) for name in ("own", "other"))
    assert alone.past_checks(own) == []
    checks = ["results/tables/other/prediction_checks.tsv"]
    assert of_all.past_checks(own) == checks
    for record in alone.planned_records("other"):
        (tmp_path / record).parent.mkdir(parents=True)
        (tmp_path / record).write_text("{}")
    assert alone.past_checks(own) == checks and alone.past_checks(other) == []
