"""A study with `per_device_batch_size: max` has the numbers that searches found, and plans those that it needs."""

import json
import re
from types import SimpleNamespace

import pytest
import yaml

from helpers.messages import says
from helpers.searches import CPU, found, make_plan, sizes
from howmanygpus.config.errors import ConfigError
from howmanygpus.invocation.rules.largest import LargestRules
from howmanygpus.measure.program.spec import ProgramSpec
from howmanygpus.measure.spec import RunSpec
from howmanygpus.site.machine import read_machine
from howmanygpus.site.requests import job_resources
from howmanygpus.site.retrying import Growth
from howmanygpus.study.largest.search import CONFIRMING_STEPS, STEPS, complete_try
from howmanygpus.study.plan import Plan
from howmanygpus.study.program.study import complete_program_try
from project import ROOT, study

TORCH = ("pytorch_ddp", "base", "fp32", "cpu")
JAX = ("jax_sharding", "base", "fp32", "cpu")


def test_each_framework_has_its_searched_number_beside_the_listed_ones():
    plan = make_plan(found(480), found(1024), per_device_batch_size=[32, "max", 64])
    assert sizes(plan) == [32, 64, 480] and sizes(plan, "jax_sharding") == [32, 64, 1024]
    assert plan.studies["small"].curves == {"weak": [32, 64, 480, 1024]}
    assert sizes(make_plan(found(480), found(1024), per_device_batch_size="max")) == [480]


def test_the_example_of_the_documentation_can_be_planned():
    text = (ROOT / "config" / "README.md").read_text()
    example = yaml.safe_load(re.search(r"<!-- example: max -->\n```yaml\n(.*?)```", text, re.DOTALL)[1])
    assert sizes(make_plan(found(480), found(480), **example)) == [32, 64, 480]


def test_a_number_that_is_listed_too_makes_one_run():
    plan = make_plan(found(64), found(32), per_device_batch_size=[32, 64, "max"])
    assert sizes(plan) == [32, 64] and len(plan.studies["small"].runs) == 4


def test_a_run_has_the_same_settings_for_searched_and_listed_batch_sizes():
    listed = make_plan(per_device_batch_size=[480])
    searched = make_plan(found(480), found(480), per_device_batch_size="max")
    assert listed.runs.keys() == searched.runs.keys() and listed.settings == searched.settings
    path = next(iter(listed.runs))
    specs = [plan.studies["small"].spec(plan.runs[path]) for plan in (listed, searched)]
    assert specs[0] == specs[1] and listed.verdicts == searched.verdicts
    assert "largest" not in listed.studies["small"].describe() and not listed.searches


def test_several_devices_leave_room_for_their_exchange_if_memory_is_the_limit():
    assert sizes(make_plan(found(480), found(480), per_device_batch_size="max", num_gpus=[1, 2])) == [448]
    assert sizes(make_plan(found(1), found(1), per_device_batch_size="max", num_gpus=[1, 2])) == [1]
    bounded = found(712, "data_set")
    assert sizes(make_plan(bounded, bounded, per_device_batch_size="max", num_gpus=[1, 2])) == [712]


def test_all_device_counts_divide_the_global_batch_under_strong_scaling():
    strong = {"per_device_batch_size": "max", "scaling": "strong", "num_gpus": [1, 2, 3]}
    plan = make_plan(found(480), found(480), **strong)
    assert [sizes(plan, num_gpus=count) for count in (1, 2, 3)] == [[444], [222], [148]]
    assert plan.studies["small"].curves == {"strong": [444]}
    plan = make_plan(found(3), found(480), **strong)
    reason = next(run.unsupported for run in plan.runs.values() if run.framework == "pytorch_ddp")
    assert "the 2 images that fit make no global batch that every device count divides" in reason


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({"steps": 24}, 1432),
        ({"steps": 24, "num_gpus": [1, 4]}, 352),
        ({"steps": 24, "accumulate": 3}, 472),
        ({"steps": 24, "num_gpus": [2, 4], "scaling": "strong"}, 712),
        # Two warm-up steps and one that is measured are in one epoch or in three.
        ({"steps": None, "epochs": 1}, 472),
        ({"steps": None, "epochs": 3}, 1432),
        ({"steps": 24, "num_gpus": [8], "accumulate": 30}, 5),
    ],
)
def test_a_search_leaves_at_least_one_measured_step(changes, bound):
    plan = make_plan(**{"per_device_batch_size": "max", **changes})
    assert {search.bound for search, _ in plan.searches.values()} == {bound}
    # The largest size is one that the study can have.
    full = found(bound, "data_set")
    make_plan(full, full, **{"per_device_batch_size": "max", **changes})


@pytest.mark.parametrize(
    ("changes", "steps"), [({}, [10, 26]), ({"prefetch": 0}, [8, 24]), ({"prefetch": 5}, [13, 29])]
)
def test_a_try_measures_steps_after_the_prefetched_batches(changes, steps):
    plan = make_plan(per_device_batch_size="max", **changes)
    assert all(json.loads(search.request())["steps"] == steps for search, _ in plan.searches.values())
    assert plan.searches


def test_studies_and_variants_that_need_the_same_memory_share_a_search():
    variants = {"base": {}, "more": {"loader_workers": 2, "optimizer": {"learning_rate": 0.3}}, "adam": {}}
    variants["adam"] = {"optimizer": {"name": "adam", "momentum": 0.0}}
    given = study(frameworks=["pytorch_ddp"], devices=["cpu"], num_gpus=[1], per_device_batch_size="max")
    other = given | {"inputs": ["arrays", "synthetic"], "steps": 30, "seed": 5, "variants": variants}
    plan = Plan({"studies": {"small": given, "other": other}}, CPU, lambda record: None)
    assert len(plan.searches) == 2, "one for each optimizer"
    shared = [studies for _, studies in plan.searches.values() if len(studies) == 2]
    assert [[each.name for each in studies] for studies in shared] == [["small", "other"]]


def test_an_excluded_or_unsupported_max_is_not_searched():
    rule = {"framework": "jax_sharding", "per_device_batch_size": "max"}
    plan = make_plan(found(480), per_device_batch_size=[32, "max"], exclude=[rule])
    assert sizes(plan) == [32, 480] and sizes(plan, "jax_sharding") == [32]
    assert list(plan.studies["small"].largest.searches) == [TORCH]
    plan = make_plan(found(480), found(480), per_device_batch_size="max", precision=["fp16"])
    assert {series[0] for series in plan.studies["small"].largest.searches} == {"pytorch_ddp"}
    assert "fp16" in next(run.unsupported for run in plan.runs.values() if run.framework == "jax_sharding")


def test_a_number_that_stands_in_is_none_that_is_listed():
    plan = make_plan(per_device_batch_size=[16, 32, 40, "max"])
    assert sizes(plan) == [16, 32, 40, 48], "so that the number of runs is known"


def test_runs_without_a_number_are_unsupported_with_the_reason():
    plan = make_plan(found(480), found(0, "failed", "64 images at a time: it crashed"), per_device_batch_size="max")
    reasons = {run.framework: run.unsupported for run in plan.runs.values()}
    assert reasons["pytorch_ddp"] == ""
    assert says(reasons["jax_sharding"], "per_device_batch_size: max", "failed", "64 images", "it crashed")
    plan = make_plan(found(480), found(0, "memory", "1 images at a time do not fit: full"), per_device_batch_size="max")
    assert "not even one image fits" in plan.studies["small"].largest.sizes[JAX].reason


def test_the_gate_covers_the_cells_of_a_search():
    plan = make_plan(
        found(480), found(0, "refused", "it failed the gate"), per_device_batch_size="max", parity="required"
    )
    cells = {cell.framework for cells in plan.search_cells.values() for cell in cells}
    assert cells == {"pytorch_ddp", "jax_sharding"}
    assert {cell.verdict for cells in plan.search_cells.values() for cell in cells} <= plan.checked_verdicts
    assert {group.first.framework for group in plan.parity_groups.values()} == cells


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"per_device_batch_size": "most"}, 'batch_size: "most" does not match ^max$; write max, or a list such as'),
        ({"per_device_batch_size": [8, "most"]}, r'batch_size[1]: "most" does not match ^max$; write max, or a whole'),
        ({"per_device_batch_size": ["max", "max"]}, "repeats an entry; keep each once"),
        ({"per_device_batch_size": ["max"], "scaling": "both"}, 'batch_size: "max" needs curves that share no runs'),
        (
            {"per_device_batch_size": "max", "train_best": 1, "steps": None, "epochs": 2},
            "since 2 epochs may be short of a measured step; train more epochs than the 2 warmup_steps",
        ),
        ({"exclude": [{"per_device_batch_size": "max"}]}, '{"per_device_batch_size": "max"} matches no run'),
    ],
)
def test_wrong_uses_are_refused_with_the_remedy(changes, message):
    with pytest.raises(ConfigError) as error:
        make_plan(**changes)
    assert message in str(error.value)


def plan_program(found=None, **changes) -> Plan:
    program = {"command": "python3 train.py {per_device_batch_size} {model}", "axes": {"model": ["a", "b"]}}
    given = {"program": program, "devices": ["cpu"], "num_gpus": [1], **changes}
    return Plan({"studies": {"small": given}}, CPU, lambda record: found)


def test_each_variant_of_a_program_has_a_search_with_its_own_command():
    plan = plan_program(per_device_batch_size="max")
    assert len(plan.searches) == 2 and not plan.search_cells and not plan.gated
    request = json.loads(next(iter(plan.searches.values()))[0].request())
    spec = complete_program_try(request, 96, is_confirmation=True)
    assert (spec["per_device_batch_size"], spec["num_gpus"], spec["study"]) == (96, 1, "batch_search")
    assert spec["program"]["axes"] == {"model": "a"} and spec["program"]["stop_after"] == CONFIRMING_STEPS
    ProgramSpec(**spec)


@pytest.mark.parametrize(
    ("listed", "largest", "num_gpus", "expected"),
    [([], 480, [1], [480]), ([], 480, [1, 2], [448]), ([2048], 10240, [1], [2048, 10240])]
    + [([2048], 10240, [1, 2], [2048, 8192]), ([2048], 2048, [1, 2], [2048])],
    ids=["one device", "room for the exchange", "tokens", "whole sequences", "one sequence"],
)
def test_runs_of_a_program_have_the_number_that_was_found(listed, largest, num_gpus, expected):
    """Beside listed numbers, all sizes are multiples of the smallest one."""
    plan = plan_program(found(largest), per_device_batch_size=[*listed, "max"], num_gpus=num_gpus)
    for count in num_gpus:
        assert sizes(plan, "small", count) == sorted([*expected, *expected]), "both variants"


def test_a_search_of_a_program_is_shared_if_only_words_and_lengths_differ():
    one = plan_program(per_device_batch_size="max")
    program = one.studies["small"].config["program"] | {"unit": "tokens", "name": "small"}
    other = plan_program(per_device_batch_size="max", program=program, warmup_steps=3, repeats=2)
    assert one.searches.keys() == other.searches.keys()


def test_a_program_that_does_not_take_its_batch_has_no_largest_one():
    with pytest.raises(ConfigError) as error:
        plan_program(program={"command": "python3 -V"}, per_device_batch_size="max")
    assert says(str(error.value), "small.per_device_batch_size", "{per_device_batch_size}")
    with pytest.raises(ConfigError) as error:
        plan_program(per_device_batch_size="max", scaling="both")
    assert says(str(error.value), "small.per_device_batch_size", "weak scaling")


def test_a_try_is_a_short_run_of_the_same_arithmetic():
    changes = {"prefetch": 3, "batchnorm": "synchronized", "optimizer": {"learning_rate": 0.4, "lr_warmup_epochs": 2}}
    plan = make_plan(per_device_batch_size="max", **changes, accumulate=2, eval_batch_size=100)
    search = plan.studies["small"].largest.searches[TORCH]
    request = json.loads(search.request())
    spec = RunSpec.from_dict(complete_try(request, 48, False, "data", search.weights_file, {}))
    assert (spec.num_gpus, spec.per_device_batch_size, spec.global_batch_size) == (1, 48, 96)
    assert (spec.prefetch, spec.batchnorm, spec.accumulate, spec.eval_batch_size) == (3, "synchronized", 2, 100)
    assert spec.steps == 3 + STEPS and spec.optimizer.learning_rate == 1e-6
    assert spec.optimizer.lr_warmup_epochs == 0 and spec.input == "arrays", "it ends with an evaluation"
    assert complete_try(request, 48, True, "data", "", {})["steps"] == 3 + CONFIRMING_STEPS


CLUSTER = {
    "scheduler": "slurm",
    "devices": {
        "a100": {"devices_per_node": 4, "cores_per_device": 8, "request": "gpu:a100:{n}"},
        "cores": {"kind": "cpu", "devices_per_node": 4, "cores_per_device": 2, "memory_per_device_mb": 3000},
    },
    "slurm": {"scratch": "/scratch"},
}


def test_a_search_is_a_job_with_one_device(tmp_path):
    path = tmp_path / "machine.yaml"
    path.write_text(yaml.safe_dump(CLUSTER))
    changes = {"devices": ["a100", "cores"], "num_gpus": [4], "frameworks": ["pytorch_ddp"]}
    plan = make_plan(machine=read_machine(path), per_device_batch_size="max", parity="report", **changes)
    rules = LargestRules(plan)
    for name, (search, _) in plan.searches.items():
        wildcards = SimpleNamespace(search=name)
        size = rules.size(wildcards)
        assert (size.num_gpus, size.num_nodes) == (1, 1)
        launch = json.loads(rules.launch(wildcards, None))
        assert launch["parity"] == "report" and launch["placement"]["scheduler"] == "slurm"
        if search.device == "cores":
            assert launch["memory_mb"] == 3000 and search.settings["device_kind"] == "cpu"
        else:
            assert job_resources(plan.machine, size, Growth())["gres"] == "gpu:a100:1"
        assert rules.verdict(wildcards) in plan.parity_cells
        assert rules.weights(wildcards) == "results/weights/small_cnn_8x8x1_classes10_seed1.json"


def test_the_laxest_study_decides_whether_a_gate_forbids_a_shared_search():
    given = study(frameworks=["pytorch_ddp"], devices=["cpu"], num_gpus=[1], per_device_batch_size="max")
    studies = {"small": given | {"parity": "required"}, "other": given | {"parity": "report"}}
    plan = Plan({"studies": studies}, CPU, lambda record: None)
    (name,) = plan.searches
    assert json.loads(LargestRules(plan).launch(SimpleNamespace(search=name), None))["parity"] == "report"


def test_a_user_model_is_found_in_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    codes = set()
    for folder, text in (("one", OWN), ("two", OWN.replace("Linear(64", "Linear(64 + 0"))):
        (tmp_path / folder).mkdir()
        path = str(tmp_path / folder / "mine.py")
        (tmp_path / folder / "mine.py").write_text(text)
        plan = make_plan(found(96), model=path, frameworks=["pytorch_ddp"], per_device_batch_size="max", parity="off")
        (name,) = plan.searches
        rules, wildcards = LargestRules(plan), SimpleNamespace(search=name)
        assert json.loads(rules.launch(wildcards, None))["model_file"] == path and sizes(plan) == [96]
        codes.add((name, rules.code(wildcards)))
    assert len({name for name, _ in codes}) == 1 and len(codes) == 2, "other code repeats the search"


OWN = """
from torch import nn

def build(image_shape, num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))
"""
