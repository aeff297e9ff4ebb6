"""Independent runs are planned as runs on several devices of which each trains alone."""

import pytest

from helpers.messages import says
from howmanygpus.config.errors import ConfigError
from howmanygpus.measure.spec import INDEPENDENT
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.invalidation.code import collect_training_code
from howmanygpus.study.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
NODES = Machine("machine.yaml", {"cpu": Device(4, 1, max_nodes=2)})
BOTH = {"together": {}, "alone": {"independent": True}}


def make_plan(machine=CPU, frameworks=("pytorch_ddp",), **changes) -> Plan:
    given = {"devices": ["cpu"], "num_gpus": [1, 4], "variants": BOTH, **changes}
    return Plan({"studies": {"small": study(frameworks=list(frameworks), **given)}}, machine)


def select(plan: Plan, variant: str, num_gpus: int):
    return next(run for run in plan.runs.values() if (run.variant, run.num_gpus) == (variant, num_gpus))


def test_a_specification_counts_all_devices_and_starts_them_alone():
    plan = make_plan()
    specs = {name: plan.studies["small"].spec(select(plan, name, 4)) for name in BOTH}
    assert (specs["alone"]["launcher"], specs["together"]["launcher"]) == (INDEPENDENT, "per_device")
    different = {key for key in specs["alone"] if specs["alone"][key] != specs["together"][key]}
    assert different == {"variant", "independent", "launcher"} and specs["alone"]["global_batch_size"] == 4 * 64


def test_each_device_uses_as_many_images_as_one_alone():
    plan = make_plan(steps=None, epochs=2)
    small = plan.studies["small"]
    one, four = (small.num_images(select(plan, "alone", count)) for count in (1, 4))
    assert four == 4 * one, "the last batch that is not full is one of one device"
    assert small.num_images(select(plan, "together", 4)) < four / 3


def test_the_setting_changes_no_other_run():
    plan, plain = make_plan(), make_plan(variants={"together": {}})
    assert plain.settings.items() < plan.settings.items()
    assert {path: plan.verdicts[path] for path in plain.runs} == plain.verdicts
    assert set(plan.verdicts.values()) == set(plain.verdicts.values()), "the gate covers the run on one device"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_can_train_alone_on_each_device(framework):
    plan = make_plan(frameworks=[framework])
    assert not select(plan, "alone", 4).unsupported
    assert "howmanygpus/measure/launch/spawn.py" in " ".join(
        collect_training_code(framework, "small_cnn", is_independent=True)
    )


def test_what_cannot_be_alone_is_unsupported_with_the_reason():
    over_nodes = select(make_plan(NODES, num_gpus=[8]), "alone", 8).unsupported
    assert says(over_nodes, "one node", "8 devices", "2")
    by_mpi = make_plan(frameworks=["horovod_pytorch"], horovod_controller="mpi")
    assert says(select(by_mpi, "alone", 4).unsupported, "mpirun", "horovod_controller")
    assert not select(by_mpi, "together", 4).unsupported


@pytest.mark.parametrize("scaling", ["strong", "both"])
def test_a_batch_that_depends_on_the_number_of_devices_is_refused(scaling):
    with pytest.raises(ConfigError) as error:
        make_plan(scaling=scaling)
    assert says(str(error.value), "studies.small.variants.alone.independent", f"scaling: {scaling}", "weak")
