"""A study with `per_device_batch_size: max` has the numbers that searches found, waits for them, or says why not."""

import json
import re

import pandas as pd
import pytest
import yaml

from howmanygpus.call.deciding import decide_all, describe_decision, end_pass, find_standing
from howmanygpus.call.searches import WAITS, give_up_searches, list_numbers
from howmanygpus.files import write_json_atomic
from howmanygpus.plan.cluster.retrying import STARTED
from howmanygpus.plan.config.errors import ConfigError
from howmanygpus.plan.config.machine import Device, Machine
from howmanygpus.plan.largest.known import read_found
from howmanygpus.plan.largest.search import CONFIRMING_STEPS, STEPS, complete_try
from howmanygpus.plan.plan import Plan
from howmanygpus.report.answer.largest import describe_largest
from howmanygpus.report.tables import batch_search
from howmanygpus.report.tables.batch_sizes import mark_largest
from howmanygpus.train.spec import RunSpec
from project import ROOT, study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
TORCH = ("pytorch_ddp", "base", "fp32", "cpu")
JAX = ("jax_sharding", "base", "fp32", "cpu")


def found(largest: int, limit: str = "memory", reason: str = "why") -> dict:
    return {"largest": largest, "limit": limit, "reason": reason}


def make_plan(torch=None, jax=None, machine=CPU, **changes) -> Plan:
    """torch, jax: what the searches of these frameworks found."""
    given = {"frameworks": ["pytorch_ddp", "jax_sharding"], "devices": ["cpu"], "num_gpus": [1], **changes}

    def find(record: str) -> dict | None:
        return torch if "/pytorch_ddp" in record else jax

    return Plan({"studies": {"small": study(**given)}}, machine, find)


def sizes(plan: Plan, framework: str = "pytorch_ddp", num_gpus: int = 1) -> list[int]:
    runs = [run for run in plan.runs.values() if (run.framework, run.num_gpus) == (framework, num_gpus)]
    return sorted(run.per_device_batch_size for run in runs if not run.unsupported)


def test_each_framework_has_its_own_number_beside_those_of_the_list():
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
    assert sizes(plan) == [32, 64] and len(plan.runs) == 4


def test_a_run_with_a_searched_number_is_that_of_a_listed_number():
    listed = make_plan(per_device_batch_size=[480])
    searched = make_plan(found(480), found(480), per_device_batch_size="max")
    assert listed.runs.keys() == searched.runs.keys() and listed.settings == searched.settings
    path = next(iter(listed.runs))
    specs = [plan.studies["small"].spec(plan.runs[path]) for plan in (listed, searched)]
    assert specs[0] == specs[1] and listed.verdicts == searched.verdicts
    assert "largest" not in json.loads(listed.studies["small"].request())
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
def test_a_search_is_bounded_by_what_leaves_a_run_a_step_to_measure(changes, bound):
    plan = make_plan(**{"per_device_batch_size": "max", **changes})
    assert {search.bound for search, _ in plan.searches.values()} == {bound}
    # The largest size is one that the study can have.
    full = found(bound, "data_set")
    make_plan(full, full, **{"per_device_batch_size": "max", **changes})


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


def test_a_plan_that_waits_asks_for_no_run_of_its_study():
    plan = make_plan(found(480), per_device_batch_size=[32, "max"])
    plan.decisions = decide_all(plan)
    assert plan.is_undecided("small") and not any(map(plan.is_asked_for, plan.runs.values()))
    assert set(plan.decisions["small"].later.values()) == {WAITS}
    told = describe_decision(plan, "small", plan.decisions["small"])
    assert {status for status, _ in told["runs"].values()} == {"missing"}
    assert not decide_all(make_plan(found(480), found(480), per_device_batch_size=[32, "max"]))


def test_an_adaptive_study_waits_with_its_probes():
    rules = {"per_device_batch_size": "max", "num_gpus": "auto", "train_best": 1, "probe_steps": 12}
    waiting = decide_all(make_plan(found(96), **rules))
    assert set(waiting) == {"small", "small_probe"} and not any(each.go for each in waiting.values())
    decided = decide_all(make_plan(found(96), found(96), **rules))
    assert decided["small_probe"].go and all("batch88" in run for run in decided["small_probe"].go)


def test_a_plan_is_rebuilt_from_its_request_without_the_records():
    plan = make_plan(found(480), found(0, "failed", "it crashed"), per_device_batch_size=[16, "max"], num_gpus=[1, 2])
    rebuilt = Plan.from_request(json.loads(plan.studies["small"].request()))
    assert rebuilt.studies["small"].describe() == plan.studies["small"].describe()


def test_runs_without_a_number_are_unsupported_with_the_reason():
    plan = make_plan(found(480), found(0, "failed", "64 images at a time: it crashed"), per_device_batch_size="max")
    reasons = {run.framework: run.unsupported for run in plan.runs.values()}
    assert reasons["pytorch_ddp"] == ""
    assert reasons["jax_sharding"] == (
        "per_device_batch_size: max has no number (failed): 64 images at a time: it crashed"
    )
    plan = make_plan(found(480), found(0, "memory", "1 images at a time do not fit: full"), per_device_batch_size="max")
    assert "not even one image fits" in plan.studies["small"].largest.sizes[JAX].reason


def test_the_gate_covers_what_a_search_trains():
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


def test_a_program_has_no_largest_batch(tmp_path):
    given = {"program": {"command": "python3 {per_device_batch_size}"}, "per_device_batch_size": [8, "max"]}
    with pytest.raises(ConfigError, match=r'small.per_device_batch_size: "max" needs a search, and only a program'):
        Plan({"studies": {"small": given}}, CPU)


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


def test_a_search_that_failed_is_known_to_this_call_alone(tmp_path, monkeypatch):
    record = str(tmp_path / "torch_upto8.json")
    monkeypatch.setenv(STARTED, "20260101T000000")
    assert read_found(record) is None
    write_json_atomic(tmp_path / "torch_upto8.failed.json", found(0, "failed") | {"call": "20260101T000000"})
    assert read_found(record) == found(0, "failed")
    monkeypatch.setenv(STARTED, "20260102T000000")
    assert read_found(record) is None
    write_json_atomic(tmp_path / "torch_upto8.json", found(64) | {"tries": []})
    assert read_found(record) == found(64)


def test_a_search_without_a_record_is_given_up_by_this_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(STARTED, "20260101T000000")
    given = study(frameworks=["pytorch_ddp"], devices=["cpu"], num_gpus=[1], per_device_batch_size=[16, "max"])
    plan, said = Plan({"studies": {"small": given}}, CPU), []
    plan.decisions = decide_all(plan)
    end_pass(plan, said.append, is_last=False)
    assert not said, "nothing was found"
    end_pass(plan, said.append, is_last=False, has_failed=True)
    assert len(said) == 1
    now = plan.plan_again()
    assert [run.per_device_batch_size for run in now.runs.values() if not run.unsupported] == [16]
    assert (
        "its job left no record; see results/logs/search_batch_size/pytorch_ddp_"
        in list(now.runs.values())[1].unsupported
    )
    give_up_searches(now)
    assert find_standing(decide_all(now), list_numbers(now)) == find_standing({}, ())


def test_another_number_of_a_repeated_search_is_followed_by_a_pass():
    before, after = (make_plan(found(size), found(64), per_device_batch_size="max") for size in (480, 472))
    standings = [find_standing(decide_all(plan), list_numbers(plan)) for plan in (before, after)]
    assert standings[0].is_followed_by(standings[1]) and not standings[0].is_followed_by(standings[0])


TRY = {"num_steps": 8, "status": "completed", "reason": "", "seconds": 3.5, "is_confirmation": False}
TRY |= {"peak_memory_bytes": 2**31, "memory_limit_bytes": None, "device_model": "A100"}


def tabulate(plan: Plan) -> pd.DataFrame:
    described = plan.studies["small"].describe()
    tries = [TRY | {"batch": 32, "outcome": "fits"}, TRY | {"batch": 64, "outcome": "out_of_memory", "reason": "full"}]
    records = {each["search"]: {"bound": 1432, "tries": tries} for each in described["largest"] if each["largest"]}
    return batch_search.tabulate(described, records)


def test_the_table_has_every_try_and_each_search_without_any():
    plan = make_plan(found(48), found(0, "failed", "it crashed"), per_device_batch_size="max", num_gpus=[1, 2])
    table = tabulate(plan)
    torch, jax = (table[table["framework"] == name] for name in ("pytorch_ddp", "jax_sharding"))
    assert torch[["try", "batch", "outcome"]].values.tolist() == [[1, 32, "fits"], [2, 64, "out_of_memory"]]
    assert set(torch["largest"]) == {48} and set(torch["per_device_batch_size"]) == {40}
    assert torch["peak_memory_gib"].tolist() == [2.0, 2.0]
    assert jax[["limit", "limit_reason"]].values.tolist() == [["failed", "it crashed"]]
    assert jax[["largest", "batch", "per_device_batch_size"]].isna().all(axis=None)


def test_the_answer_names_the_largest_batch_and_its_limit():
    plan = make_plan(found(48), found(0, "failed", "it crashed"), per_device_batch_size="max", num_gpus=[1, 2])
    assert describe_largest(tabulate(plan)) == (
        "Largest batch that fits on one device: pytorch_ddp on cpu: 48 images (memory; runs take 40); "
        "jax_sharding on cpu: none (failed: it crashed)."
    )
    plan = make_plan(found(1432, "data_set"), found(64, "host_memory"), per_device_batch_size="max")
    text = describe_largest(tabulate(plan))
    assert "pytorch_ddp on cpu: 1432 images (bounded by the data set)" in text
    assert "jax_sharding on cpu: 64 images (memory of the host)" in text
    assert describe_largest(None) == ""


def test_the_batch_of_each_framework_is_marked_with_its_limit():
    plan = make_plan(found(480), found(64, "data_set"), per_device_batch_size=[64, "max"])
    rows = [
        {"framework": name, "variant": "base", "precision": "fp32", "device": "cpu", "per_device_batch_size": size}
        for name in ("pytorch_ddp", "jax_sharding")
        for size in (64, 480)
    ]
    table = pd.DataFrame(rows).assign(is_largest_that_fits=False)
    marked = mark_largest(table, plan.studies["small"].largest.describe())
    assert marked["max_limit"].tolist() == [None, "memory", "data_set", None]
    assert marked["is_largest_that_fits"].tolist() == [False, True, False, False]
