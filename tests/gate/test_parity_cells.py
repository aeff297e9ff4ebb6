"""Which verdicts of the parity gate a plan needs, and on how many devices each is observed."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from howmanygpus.gate.task import GLOBAL_BATCH_SIZE, OPTIMIZERS, make_spec
from howmanygpus.invocation.rules.parity import ParityRules
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.concurrency import MEASURED_RUN
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.gate_cells import list_gated_defaults
from howmanygpus.study.plan import Plan
from project import ROOT, study

SAME_WORK = {"repeats": 2, "steps": 30, "warmup_steps": 3, "per_device_batch_size": [32]}
VARIANTS = {
    "best": {"tier": "best"},
    "native": {"loader": "native"},
    "dali": {"loader": "dali"},
    "native_in_threads": {"loader": "native", "loader_kind": "threads"},
    "fp16": {"gradient_compression": "fp16"},
    "powersgd": {"gradient_compression": "powersgd"},
    "powersgd2": {"gradient_compression": "powersgd", "powersgd_rank": 4},
    "mpi": {"horovod_controller": "mpi"},
}
"""Each trains by other code, or with another result."""


def make_plan(devices_per_node=8, **changes) -> Plan:
    machine = Machine("machine.yaml", {"cpu": Device(devices_per_node, 1)})
    given = {"frameworks": ["pytorch_ddp"], "devices": ["cpu"], "parity": "required", **changes}
    return Plan({"studies": {"small": study(**given)}}, machine)


def verdicts_of(plan) -> set[str]:
    return set(plan.verdicts.values())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_rules_know_the_name_of_every_verdict(framework):
    constraints = (ROOT / "workflow" / "rules" / "wildcards.smk").read_text()
    task, checked = (re.search(rf'^    {name}=r?"(.+)",$', constraints, re.MULTILINE) for name in ("task", "checked"))
    given = {"frameworks": [framework], "inputs": ["png"], "variants": {"base": {}, **VARIANTS}}
    for verdict in verdicts_of(make_plan(**given)):
        assert re.fullmatch(f"results/parity/{task[1]}/{checked[1]}[.]json", verdict), verdict


def test_runs_that_do_the_same_work_share_a_verdict():
    assert len(verdicts_of(make_plan(**SAME_WORK, variants={"base": {}, "short": {"window_steps": 2}}))) == 1


@pytest.mark.parametrize(
    ("framework", "variant"),
    [
        *(("pytorch_ddp", name) for name in ("best", "native", "dali", "fp16", "powersgd", "powersgd2")),
        *(("mxnet_gluon", name) for name in ("best", "native", "native_in_threads")),
        *(("horovod_pytorch", name) for name in ("mpi", "fp16")),
    ],
)
def test_a_variant_that_trains_otherwise_has_a_verdict_of_its_own(framework, variant):
    plan = make_plan(frameworks=[framework], variants={"base": {}, "other": VARIANTS[variant]}, inputs=["png"])
    assert len(verdicts_of(plan)) == 2
    for cell in plan.parity_cells.values():
        spec = make_spec(
            {"framework": framework, "family": "torch", "strategy": "ddp", "launcher": "plain"},
            {key: value for key, value in cell.describe().items() if key != "framework"},
            {"num_gpus": 3, "num_nodes": 1},
            next(iter(OPTIMIZERS)),
            folder=Path("task"),
            defaults=list_gated_defaults(),
        )
        assert spec.global_batch_size == GLOBAL_BATCH_SIZE and spec.per_device_batch_size == 4


def test_runs_that_accumulate_have_a_task_of_their_own():
    plan = make_plan(accumulate=4, num_gpus=[1, 2, 4], scaling="strong")
    tasks = {run.num_gpus: plan.cells[path].task for path, run in plan.runs.items()}
    usual, _, optimizer = tasks[4].rpartition("_")
    assert tasks[1] == tasks[2] == f"{usual}_accumulated_{optimizer}", "four devices accumulate nothing"
    (cell,) = [plan.cells[path] for path, run in plan.runs.items() if run.num_gpus == 2]
    names = {"framework": "pytorch_ddp", "family": "torch", "strategy": "ddp", "launcher": "plain"}
    spec = make_spec(
        names, cell.describe(), {"num_gpus": 3, "num_nodes": 1}, "sgd", Path("task"), list_gated_defaults()
    )
    assert (spec.accumulate, spec.per_device_batch_size, spec.global_batch_size) == (2, 2, GLOBAL_BATCH_SIZE)


def test_ranks_of_powersgd_are_distinguished_and_absent_without_it():
    given = {name: VARIANTS[name] for name in ("powersgd", "powersgd2")}
    assert len(verdicts_of(make_plan(variants={"base": {}, "rank": {"powersgd_rank": 4}, **given}))) == 3


@pytest.mark.parametrize("changes", [{"precision": ["bf16"]}, {"variants": {"base": VARIANTS["fp16"]}}])
def test_wide_limits_require_the_strict_verdict_on_the_same_code(changes):
    """No run asks for the strict cell, but it is checked in the same start."""
    plan = make_plan(**changes)
    (verdict,) = verdicts_of(plan)
    strict = plan.parity_cells[verdict].strict
    assert strict.verdict in plan.checked_verdicts
    assert (strict.precision, strict.settings["gradient_compression"], strict.strict) == ("fp32", "none", None)
    (group,) = plan.parity_groups.values()
    assert {cell.verdict for cell in group.cells} == {verdict, strict.verdict}


def test_an_unchecked_verdict_requires_no_other():
    plan = make_plan(precision=["bf16"], parity="off")
    assert plan.checked_verdicts == set() and len(plan.parity_cells) == 1


@pytest.mark.parametrize(("devices", "layouts"), [(1, ["1x1"]), (2, ["1x1", "2x1"]), (8, ["1x1", "3x1"])])
def test_three_devices_are_used_where_the_machine_has_them(devices, layouts):
    plan = make_plan(devices, num_gpus=[1])
    (cell,) = plan.parity_cells.values()
    assert cell.layouts == layouts


def find_devices(plan: Plan, cell) -> list[int]:
    names = ("height", "width", "channels", "num_classes", "batchnorm", "variation")
    found = re.fullmatch(r"small_cnn_(\d+)x(\d+)x(\d+)_classes(\d+)_(local|synchronized)(_.+)", cell.task)
    wildcards = SimpleNamespace(model="small_cnn", options="", **dict(zip(names, found.groups(), strict=True)))
    return ParityRules(plan).devices(wildcards)


@pytest.mark.parametrize(("devices", "numbers"), [(1, [1]), (2, [1, 2]), (8, [1, 3])])
def test_a_reference_is_for_the_numbers_of_devices_of_its_cells(devices, numbers, tmp_path, monkeypatch):
    """Those that an earlier call had computed stay, so that calls with different numbers repeat nothing."""
    plan = make_plan(devices, num_gpus=[1])
    (cell,) = map(plan.parity_cells.get, plan.checked_verdicts)
    monkeypatch.chdir(tmp_path)
    assert find_devices(plan, cell) == numbers
    earlier = tmp_path / "results" / "parity" / cell.task / "reference.json"
    earlier.parent.mkdir(parents=True)
    earlier.write_text('{"devices": [1, 2]}')
    assert find_devices(plan, cell) == sorted({*numbers, 1, 2})
    earlier.write_text('{"model": "small_cnn"}')
    assert find_devices(plan, cell) == numbers, "an older version does not say it"


def test_observing_waits_for_no_noise_and_lets_it_be_computed_meanwhile():
    """Noise takes minutes in large networks, and only judging needs it."""
    text = (ROOT / "workflow" / "rules" / "parity.smk").read_text()
    rule = re.compile(r"^(?:use )?rule (?:\w+ as )?(\w+).*?:\n((?: .*\n|\n)+)", re.MULTILINE)
    texts = dict(rule.findall(text))
    reference, observe, noise = (texts[name] for name in ("compute_reference", "observe_parity", "compute_noise"))
    priorities = [int(re.search(r"priority: (\d+)", rule)[1]) for rule in (reference, observe, noise)]
    assert priorities == sorted({*priorities}, reverse=True)
    assert "noise" not in observe
    local, submitted = make_plan(), Machine("m.yaml", {"cpu": Device(8, 1)}, scheduler="slurm")
    taken = ParityRules(local).measurement(None)
    assert MEASURED_RUN / 2 < taken < MEASURED_RUN, "no other group, and other jobs"
    assert ParityRules(SimpleNamespace(machine=submitted)).measurement(None) == MEASURED_RUN


def test_another_controller_needs_another_start():
    plan = make_plan(frameworks=["horovod_pytorch"], variants={"base": {}, "mpi": VARIANTS["mpi"]})
    assert len(plan.parity_groups) == 2
    assert sorted("_mpi-" in name for name in plan.parity_groups) == [False, True]


def test_the_plan_says_what_the_runs_behind_a_verdict_do_that_the_gate_does_not():
    plan = make_plan(num_gpus=[1, 4], gradient_noise_every_epochs=2)
    (planned,) = plan.planned.values()
    assert planned["layouts"] == [(1, 1), (4, 1)]
    assert [(key, value) for key, value, _ in planned["settings"]] == [("gradient_noise_every_epochs", "2")]
