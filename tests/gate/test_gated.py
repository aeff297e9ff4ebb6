"""Every setting of a run is part of the gate's cell, or of its task, or declared with the reason why it is neither."""

import itertools
from dataclasses import make_dataclass, replace
from pathlib import Path

import pytest

from gate.document import describe_gating
from helpers.specs import make_spec
from howmanygpus.gate import task, task_forms
from howmanygpus.gate.rates import compute_rates
from howmanygpus.gate.task_forms import Variation
from howmanygpus.measure.loop.schedule import learning_rates
from howmanygpus.settings import CELL, NONE, OPTIMIZER, SETTINGS, TASK, in_cell, list_defaults
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study import gate_cells
from howmanygpus.study.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
RATES = {
    "lr_schedule": ("constant", "step", "cosine", "linear"),
    "lr_scaling": ("none", "linear", "sqrt"),
    "lr_warmup_epochs": (0, 0.35, 0.75, 1, 1.5),
    "lr_reference_batch_size": (None, 6),
    "lr_step_epochs": ([1.25, 2], [1.005], [0.35, 1.5]),
}


def list_values(key: str) -> list:
    """Return values of a setting that are not its default."""
    rule, default = SETTINGS[key].accepts, SETTINGS[key].default
    if key == "loader_kind":
        return ["threads"]  # MXNet's usual kind is `processes`.
    if "enum" in rule:
        return [value for value in rule["enum"] if value not in (default, None)]
    return [{"boolean": not default, "integer": (default or 0) + 1, "number": (default or 0) + 0.1}[rule["type"]]]


NEEDED = {
    "powersgd_rank": {"gradient_compression": "powersgd"},
    "loss_on_every_device": {},
    "loader_kind": {"loader": "native"},
    "horovod_controller": {},
}
"""Settings without which another makes no difference."""
HAVE = {"loss_on_every_device": "pytorch_dp", "horovod_controller": "horovod_pytorch", "loader_kind": "mxnet_gluon"}
HAVE |= {"loss_on_first_device": "mxnet_gluon"}
"""Frameworks that have a setting, if pytorch_ddp lacks it."""
SET_BY = {"frozen_batches": "frozen_batches", "reads_every_loss": "read_every_loss"}
"""The protocol that sets a setting, if a study cannot."""
CELL_VALUES = [
    (key, value)
    for key, setting in SETTINGS.items()
    if setting.gate.by == CELL and key != "optimizer"
    for value in list_values(key)
]


def find_verdicts(framework: str, **changes) -> set[str]:
    given = study(frameworks=[framework], devices=["cpu"], num_gpus=[1], parity="required") | changes
    return set(Plan({"studies": {"small": given}}, CPU).verdicts.values())


@pytest.mark.parametrize("key", SETTINGS)
def test_a_setting_that_is_not_checked_has_a_reason(key):
    gate = SETTINGS[key].gate
    assert gate.by in (CELL, TASK) or (gate.by == NONE and len(gate.how.split()) > 5)


def test_the_task_chooses_the_values_of_exactly_the_settings_that_are_declared_as_its_own():
    assert set(task.FIXED) | {"crop", *task.OPTIMIZERS["sgd"]} == {
        key for key, setting in SETTINGS.items() if setting.gate.by == TASK
    }
    formed = task_forms.make_optimizer(task_forms.SGD_FORM)
    assert set(formed) >= {key for key, setting in OPTIMIZER.items() if setting.gate.by == TASK}


def test_the_planner_gives_the_gate_no_value_of_a_setting_that_the_task_must_choose():
    """A task that forgot it would be done with the default, and its verdict would be for all values."""
    defaults = gate_cells.list_gated_defaults()
    assert not set(defaults) & set(task.FIXED) and "learning_rate" not in defaults["optimizer"]


@pytest.mark.parametrize(("place", "key"), [([], "init"), (["optimizer"], "fused")])
def test_a_value_that_the_task_forgot_fails_the_gate_with_the_remedy(monkeypatch, place, key):
    values, defaults = make_spec().to_dict(), gate_cells.list_gated_defaults()
    if place:
        monkeypatch.setattr(task, "OptimizerSpec", make_dataclass("Longer", [*values["optimizer"], key]))
    cell = {"crop": [8, 8], "variation": f"_{task_forms.SGD_FORM}"}
    names = {name: values[name] for name in ("framework", "family", "strategy", "launcher")}
    known = {name: value for name, value in (defaults | values).items() if name not in task.FIXED and name != key}
    with pytest.raises(ValueError, match=f"no value for {'.'.join([*place, key])}; add one to FIXED"):
        task.make_spec(names, cell, {"num_gpus": 1, "num_nodes": 1}, task_forms.SGD, Path("task"), known)


def test_every_setting_is_in_the_table_of_the_documentation_once():
    names = [name.strip("`") for name, _, _ in describe_gating()]
    optimizer = [f"optimizer.{key}" for key in OPTIMIZER]
    assert sorted(names) == sorted([*(set(SETTINGS) - {"optimizer"}), *optimizer])


@pytest.mark.parametrize(("key", "value"), CELL_VALUES)
def test_another_value_of_a_setting_of_the_cell_needs_another_verdict(key, value):
    framework, needed = HAVE.get(key, "pytorch_ddp"), NEEDED.get(key, {})
    changes = {"protocols": {SET_BY[key]: [framework]}} if key in SET_BY else {key: value}
    assert find_verdicts(framework, **needed) != find_verdicts(framework, **needed, **changes)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "adam"},
        {"name": "adamw"},
        {"momentum": 0},
        {"weight_decay": 0.1},
        {"weight_decay": 0.1, "weight_decay_on": "weights"},
        {"lr_scaling": "none"},
        {"lr_scaling": "sqrt"},
        {"lr_reference_batch_size": 16},
        {"lr_warmup_epochs": 0.5},
        {"lr_schedule": "cosine"},
        {"lr_schedule": "linear"},
        {"lr_schedule": "step", "lr_step_epochs": [1]},
    ],
)
def test_another_form_of_the_optimizer_needs_another_verdict(change):
    assert find_verdicts("pytorch_ddp") != find_verdicts("pytorch_ddp", optimizer=change)


def test_other_numbers_of_an_optimizer_share_its_verdict():
    one, other = ({"momentum": 0.9, "weight_decay": 0.1}, {"momentum": 0.5, "weight_decay": 0.3, "learning_rate": 3})
    assert find_verdicts("pytorch_ddp", optimizer=one) == find_verdicts("pytorch_ddp", optimizer=other)


@pytest.mark.parametrize("framework", ["pytorch_ddp", "chainer_mn"])
def test_a_native_loader_that_resizes_needs_a_verdict_of_its_own(framework):
    resized, native = {"random_resized_crop": {"size": [8, 8]}}, {"loader": "native"}
    assert find_verdicts(framework, **native) != find_verdicts(framework, **native, **resized)
    assert find_verdicts(framework) == find_verdicts(framework, **resized)


@pytest.mark.parametrize(("table", "place"), [(SETTINGS, []), (OPTIMIZER, ["optimizer"])])
def test_a_new_setting_of_the_cell_is_part_of_it_if_it_is_not_the_default(monkeypatch, table, place):
    new = replace(SETTINGS["accumulate"], default=0, gate=in_cell())
    monkeypatch.setitem(table, "new_key", new)
    for value, more in ((3, {"new_key": 3}), (0, {})):
        settings = list_defaults()
        (settings["optimizer"] if place else settings)["new_key"] = value
        described = gate_cells.describe_settings(gate_cells.select_settings("pytorch_ddp", "arrays", settings))
        assert described.get("more", {}) == ({"optimizer": more} if place and more else more)


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_variation_is_read_from_its_text(multi_label):
    forms = [task_forms.SGD_FORM, "adamw-decayweights-step-sqrtscaled-perdevice-warmup", "sgd-constant"]
    for smoothing, accumulates, resizes, form in itertools.product((0.0, 0.1), *[(False, True)] * 2, forms):
        variation = Variation(multi_label, smoothing, accumulates, resizes, frozen_batches=not resizes, optimizer=form)
        assert Variation.read(str(variation)) == variation


def test_the_tasks_optimizer_has_the_form_that_it_is_made_for():
    words = itertools.product(
        ("sgd", "sgd-momentum", "adam", "adamw"),
        ("", "-decay", "-decayweights"),
        ("-constant", "-step", "-cosine", "-linear"),
        ("", "-linearscaled", "-sqrtscaled-perdevice"),
        ("", "-warmup"),
    )
    for parts in words:
        form = "".join(parts)
        assert task_forms.name_form(task_forms.make_optimizer(form)) == form


@pytest.mark.parametrize("schedule", RATES["lr_schedule"])
def test_learning_rates_match_the_reference(schedule):
    """The reference writes all formulas out again, the rounding of epochs to steps included."""
    others = {key: values for key, values in RATES.items() if key != "lr_schedule"}
    for values in itertools.product(*others.values()):
        optimizer = {"lr_schedule": schedule, **dict(zip(others, values, strict=True))}
        spec = make_spec(optimizer, global_batch_size=12, num_gpus=2, epochs=None, steps=25)
        for steps_per_epoch in (2, 10, 100):
            expected = compute_rates(spec, steps_per_epoch, 25)
            assert learning_rates(spec, steps_per_epoch) == pytest.approx(expected, rel=1e-6), optimizer


def test_half_a_step_of_warmup_counts_as_a_step():
    spec = make_spec({"lr_warmup_epochs": 0.75}, epochs=None, steps=4)
    assert learning_rates(spec, 2).tolist() == pytest.approx([0.05, 0.1, 0.1, 0.1])
    spec = make_spec({"lr_warmup_epochs": 1.25}, epochs=None, steps=4)
    assert learning_rates(spec, 2).tolist() == pytest.approx([0.1 / 3, 0.2 / 3, 0.1, 0.1])
