"""A study names the numbers of nodes of its runs: paths, settings, jobs, verdicts and errors."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml

from helpers.first_page import describe
from helpers.messages import list_texts, says
from howmanygpus.config.errors import ConfigError
from howmanygpus.invocation.rules.cluster import ClusterRules
from howmanygpus.invocation.rules.parity import ParityRules
from howmanygpus.invocation.rules.products import ProductRules
from howmanygpus.invocation.rules.training import TrainingRules
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from howmanygpus.study.runs import Run, complete_spec
from howmanygpus.study.study import Study
from project import ROOT, study

OPTIONS = {
    **{"request": "gpu:a100:{n}", "nodes": "shared", "memory_per_device_mb": 1000, "sbatch_options": None},
    **{"partition": "gpu", "constraint": None, "qos": None, "devices_per_node": 4},
    **{"billed": "device", "price_per_hour": None, "currency": "EUR"},
}
SLURM = {"overhead_min": 5, "preflight": True}
CLUSTER = Machine(
    *("machine.yaml", {"a100": Device(4, 8, "cuda", max_nodes=2, options=OPTIONS)}),
    **{"scheduler": "slurm", "slurm": SLURM},
)


def make_plan(machine=CLUSTER, **changes) -> Plan:
    given = {"frameworks": ["pytorch_ddp"], "devices": ["a100"], "num_gpus": [1, 2, 4, 8], **changes}
    return Plan({"studies": {"s": study(**given)}}, machine)


def list_layouts(plan: Plan) -> dict[tuple[int, int], str]:
    """Return why each number of devices on each number of nodes is unsupported; empty for those that are not."""
    return {(run.num_gpus, CLUSTER.count_nodes(run)): run.unsupported for run in plan.runs.values()}


def path_of(num_gpus: int, suffix: str = "") -> str:
    return f"s/pytorch_ddp/base/arrays_fp32_a100_gpus{num_gpus}{suffix}_batch64_repeat1"


def test_each_device_count_runs_on_each_number_of_nodes_that_can_have_it():
    assert list_layouts(make_plan(num_nodes=[1, 2])) == {
        **{(1, 1): "", (2, 1): "", (4, 1): "", (2, 2): "", (4, 2): "", (8, 2): ""},
        (8, 1): "8 devices do not fit on 1 node with 4 each",
    }


def test_a_layout_that_cannot_be_placed_has_a_reason():
    layouts = list_layouts(make_plan(num_gpus=[2, 3, 6], num_nodes=[2, 4]))
    assert layouts == {
        (2, 2): "",
        (2, 4): "2 devices are too few for 4 nodes, each of which has one at least",
        (3, 2): "3 devices do not spread evenly over 2 nodes",
        (3, 4): "3 devices are too few for 4 nodes, each of which has one at least",
        (6, 2): "",
        (6, 4): "6 devices do not spread evenly over 4 nodes",
    }


def test_one_device_is_on_one_node_once():
    assert list_layouts(make_plan(num_gpus=[1, 2], num_nodes=2)) == {(1, 1): "", (2, 2): ""}
    repeats = make_plan(num_gpus=[1], num_nodes=[1, 2], repeats=2)
    assert [run.repeat for run in repeats.runs.values()] == [1, 2]


def test_only_the_path_of_a_spread_run_names_its_nodes():
    plan = make_plan(num_gpus=[1, 2, 8], num_nodes=[1, 2])
    assert set(plan.runs) == {path_of(1), path_of(2), path_of(2, "_nodes2"), path_of(8), path_of(8, "_nodes1")}
    assert all(Run.from_path(path).path == path for path in plan.runs)
    assert Run.from_path(path_of(2)).num_nodes is None and Run.from_path(path_of(2, "_nodes2")).num_nodes == 2


def test_the_axis_changes_no_run_on_the_fewest_nodes():
    without, axis = make_plan(), make_plan(num_nodes=[1, 2])
    same = [path for path in without.runs if not axis.runs[path].unsupported]
    assert len(same) == 4 and [axis.settings[path] for path in same] == [without.settings[path] for path in same]


def test_the_job_that_starts_a_run_knows_its_nodes_from_the_path_and_the_settings():
    plan = make_plan(num_gpus=[4], num_nodes=[1, 2])
    for suffix, nodes in {"": 1, "_nodes2": 2}.items():
        path = path_of(4, suffix)
        spec = complete_spec(Run.from_path(path), json.loads(plan.settings[path]), "data", "weights")
        assert (spec["num_gpus"], spec["num_nodes"]) == (4, nodes)
        assert plan.studies["s"].spec(plan.runs[path])["num_nodes"] == nodes


def test_a_job_requests_the_devices_of_each_of_its_nodes():
    rules = TrainingRules(make_plan(num_gpus=[4], num_nodes=[1, 2]))
    cluster = ClusterRules(make_plan(num_gpus=[4], num_nodes=[1, 2]))
    resources = cluster.resources(rules.size, rules.growth)
    asked = {}
    for suffix in ("", "_nodes2"):
        wildcards = SimpleNamespace(run=path_of(4, suffix))
        asked[suffix] = tuple(resources[name](wildcards, 1) for name in ("nodes", "gres", "mem_mb"))
    assert asked == {"": (1, "gpu:a100:4", 4000), "_nodes2": (2, "gpu:a100:2", 2000)}


def test_one_process_uses_one_node():
    plan = make_plan(frameworks=["keras_mirrored"], num_gpus=[2], num_nodes=[1, 2])
    reason = "keras_mirrored is one process: it uses the 4 devices of one node at most"
    assert list_layouts(plan) == {(2, 1): "", (2, 2): reason}


@pytest.mark.parametrize(("framework", "capability"), [("tensorflow_mirrored", "12.0"), ("jax_sharding", "7.0")])
def test_a_framework_runs_on_gpus_that_its_build_is_for(framework, capability):
    """A build of the site may be for others."""
    device = replace(CLUSTER.device("a100"), compute_capability=capability)
    environment = FRAMEWORKS[framework].environments["cuda"]
    reasons = []
    for existing in ({}, {environment: {"python": "/site/python", "modules": []}}):
        machine = replace(CLUSTER, devices={"a100": device}, environments=existing)
        reasons.append(list_layouts(make_plan(machine, frameworks=[framework], num_gpus=[1]))[1, 1])
    assert says(reasons[0], framework, "is built for compute capability", capability) and reasons[1] == ""


@pytest.mark.parametrize(
    ("framework", "is_supported"),
    [("tensorflow_mirrored", False), ("horovod_keras", False), ("mxnet_gluon", False), ("pytorch_ddp", True)],
)
def test_a_framework_without_a_wheel_for_the_processor_is_unsupported_with_the_reason(
    monkeypatch, framework, is_supported
):
    """A build of the site may be for it."""
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    environment, reasons = FRAMEWORKS[framework].environments["cuda"], []
    for existing in ({}, {environment: {"python": "/site/python", "modules": []}}):
        machine = replace(CLUSTER, environments=existing)
        reasons.append(list_layouts(make_plan(machine, frameworks=[framework], num_gpus=[1]))[1, 1])
    words = (framework, "aarch64", "no wheel" if framework == "mxnet_gluon" else "wheel", "`environments`")
    assert reasons[1] == "" and (reasons[0] == "" if is_supported else says(reasons[0], *words))


def test_runs_wait_for_the_all_reduce_if_a_slow_network_is_refused():
    for judge, expected in (("report", []), ("refuse", ["results/probe/a100_gpus4.json"])):
        machine = replace(CLUSTER, slurm=SLURM | {"judge_network": judge})
        plan = make_plan(machine)
        run = next(path for path in plan.runs if "gpus4" in path)
        assert TrainingRules(plan).probe(SimpleNamespace(run=run)) == expected
        alone = next(path for path in plan.runs if "gpus1" in path)
        assert TrainingRules(plan).probe(SimpleNamespace(run=alone)) == []
        older = TrainingRules(plan, lambda record: ["results/environments/pytorch.json"])
        assert older.probe(SimpleNamespace(run=run)) == [], "a run that was made before is not repeated"


def test_the_gate_waits_for_the_all_reduces_of_the_runs_that_it_checks_if_a_slow_network_is_refused():
    """Within a node and over nodes are groups of their own, so that a slow link between nodes stops no other run."""
    changes = {"num_gpus": [1, 2, 4, 8], "num_nodes": [1, 2], "parity": "required"}
    waited = {"": ["a100_gpus2", "a100_gpus4"], "_over-nodes": ["a100_gpus2_nodes2", "a100_gpus4_nodes2", "a100_gpus8"]}
    for judge, expected in (("report", {"": [], "_over-nodes": []}), ("refuse", waited)):
        plan = make_plan(replace(CLUSTER, slurm=SLURM | {"judge_network": judge}), **changes)
        rules = ParityRules(plan)
        older = ParityRules(plan, lambda record: ["results/probe/a100.json"])
        for name in plan.parity_groups:
            wildcards, kind = SimpleNamespace(group=name), "_over-nodes" if "over-nodes" in name else ""
            assert sorted(rules.allreduces(wildcards)) == [f"results/probe/{each}.json" for each in expected[kind]]
            assert older.allreduces(wildcards) == [], "a group that was observed before is not observed again"
        assert len(plan.parity_groups) == 2


def test_the_gate_of_one_device_waits_for_no_network():
    machine = replace(CLUSTER, slurm=SLURM | {"judge_network": "refuse"})
    plan = make_plan(machine, num_gpus=[1], parity="required")
    assert [ParityRules(plan).allreduces(SimpleNamespace(group=name)) for name in plan.parity_groups] == [[]]


def test_a_best_tier_of_one_device_is_neither_run_nor_checked_on_several():
    changes = {"variants": {"best": {"tier": "best"}}, "parity": "required"}
    alone = make_plan(frameworks=["keras_mirrored"], num_gpus=[1, 2], **changes)
    assert list_layouts(alone)[1, 1] == "" and says(list_layouts(alone)[2, 1], "keras_mirrored", "several devices")
    other = make_plan(frameworks=["tensorflow_mirrored"], num_gpus=[1, 2], **changes)
    assert set(list_layouts(other).values()) == {""}
    found = {tuple(cell.layouts) for plan in (alone, other) for cell in plan.cells.values()}
    assert found == {("1x1",), ("1x1", "3x1")}


def test_spread_runs_wait_for_the_verdict_over_two_nodes():
    plan = make_plan(num_gpus=[2], num_nodes=[1, 2], parity="required")
    spread, together = plan.cells[path_of(2, "_nodes2")], plan.cells[path_of(2)]
    assert (spread.layouts, together.layouts) == (["2x2"], ["1x1", "3x1"])
    assert spread.verdict.replace("_over-nodes", "") == together.verdict


def test_the_preflight_measures_layouts_that_can_be_placed():
    changes = {"frameworks": ["pytorch_ddp", "keras_mirrored"], "num_gpus": [1, 3, 4, 8]}
    plan = make_plan(num_nodes=[1, 2], **changes)
    products = ProductRules(plan, lambda: False)
    measured = products.allreduces(SimpleNamespace(study="s"))
    assert measured == [f"results/probe/a100_gpus{name}.json" for name in ("3", "4", "4_nodes2", "8")]
    rules = ClusterRules(plan)
    for spread, nodes in {"": 1, "_nodes2": 2}.items():
        wildcards = SimpleNamespace(device="a100", num_gpus="4", spread=spread)
        assert rules.num_nodes(wildcards) == rules.allreduce_size(wildcards).num_nodes == nodes


def test_studies_share_the_bill_of_the_preflight_that_they_need():
    given = {"devices": ["a100"], "frameworks": ["pytorch_ddp"]}
    studies = {
        "one": study(**given, num_gpus=[1]),
        "two": study(**given, num_gpus=[2]),
        "four": study(**given, num_gpus=[2, 4]),
    }
    products = ProductRules(Plan({"studies": studies}, CLUSTER), lambda: False)
    assert products.studies_on_device(SimpleNamespace(device="a100"), []) == ["one", "two", "four"]
    assert products.studies_on_device(SimpleNamespace(device="cpu"), []) == []
    sharing = [products.studies_of_allreduce(None, [], [f"results/probe/a100_gpus{count}.json"]) for count in (2, 4)]
    assert sharing == [["two", "four"], ["four"]]


def test_only_a_study_with_several_numbers_of_nodes_has_their_table_and_figure():
    def made(**changes):
        plan = make_plan(**changes)
        products = ProductRules(plan, lambda: False)
        return [path for path in products.list_study_products("s") if "placement" in path]

    assert made(num_nodes=[1, 2]) == ["results/tables/s/placement.tsv", "results/figures/s/placement.svg"]
    assert made() == made(num_nodes=2) == []


@pytest.mark.parametrize(
    ("num_nodes", "words"),
    [
        (None, "on 2, 4 devices with 64 images each"),
        (1, "on 2, 4 devices (of 1 node, as far as possible) with 64 images each"),
        ([1, 2], "on 2, 4 devices (of 1, 2 nodes, as far as possible) with 64 images each"),
    ],
)
def test_the_report_describes_the_nodes_of_a_study(num_nodes, words):
    assert words in describe(make_plan(num_gpus=[2, 4], num_nodes=num_nodes).studies["s"].config)


def test_exclude_knows_the_nodes_of_a_run():
    plan = make_plan(num_gpus=[2, 4], num_nodes=[1, 2], exclude=[{"num_gpus": 2, "num_nodes": 2}])
    assert set(list_layouts(plan)) == {(2, 1), (4, 1), (4, 2)}
    plan = make_plan(num_gpus=[4, 8], exclude=[{"num_nodes": 2}])
    assert set(list_layouts(plan)) == {(4, 1)}


def test_a_program_has_the_axis():
    program = {"program": {"command": "echo {num_nodes} {devices_per_node}", "start": "per_node"}}
    given = program | {"devices": ["a100"], "num_gpus": [1, 2, 8], "num_nodes": [1, 2]}
    plan = Plan({"studies": {"s": given}}, CLUSTER)
    assert list_layouts(plan) == {
        **{(1, 1): "", (2, 1): "", (2, 2): "", (8, 2): ""},
        (8, 1): "8 devices do not fit on 1 node with 4 each",
    }
    assert {run.path for run in plan.runs.values() if run.num_nodes == 2} == {
        "s/s/base/program_fp32_a100_gpus2_nodes2_batch32_repeat1"
    }
    assert [CLUSTER.count_nodes(run) for run in plan.runs.values()] == [
        plan.studies["s"].spec(run)["num_nodes"] for run in plan.runs.values()
    ]
    once = Plan({"studies": {"s": given | {"program": {"command": "echo", "start": "once"}, "num_gpus": [2]}}}, CLUSTER)
    assert says(list_layouts(once)[2, 2], "starts once", "one node", "on 2")


def test_auto_takes_the_counts_that_some_number_of_nodes_can_have():
    four = Machine("machine.yaml", {"a100": Device(4, 8, "cuda", max_nodes=4)}, scheduler="slurm")
    for numbers, counts in {(1,): [1, 2, 4], (2,): [1, 2, 4, 8], (4,): [1, 4, 8, 16], (1, 4): [1, 2, 4, 8, 16]}.items():
        plan = make_plan(four, num_gpus="auto", num_nodes=list(numbers))
        assert sorted({run.num_gpus for run in plan.runs.values()}) == counts, numbers


def test_a_study_on_one_number_of_nodes_can_be_adaptive():
    plan = make_plan(num_gpus="auto", num_nodes=2, stop_below_efficiency=0.5)
    assert isinstance(plan.studies["s"], Study) and list_layouts(plan) == dict.fromkeys(
        [(1, 1), (2, 2), (4, 2), (8, 2)], ""
    )


def test_the_example_of_the_documentation_is_planned_as_it_says():
    text = (ROOT / "config" / "README.md").read_text()
    example = yaml.safe_load(re.search(r"<!-- example: nodes -->\n```yaml\n(.*?)```", text, re.DOTALL)[1])
    layouts = list_layouts(make_plan(**example))
    assert [layout for layout, reason in layouts.items() if reason] == [(8, 1)]
    assert sorted(layout for layout, reason in layouts.items() if not reason) == [
        *((1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (8, 2))
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_nodes": 0}, "studies.s.num_nodes: 0 is too small; give at least 1"),
        ({"num_nodes": [1, 0]}, r"studies.s.num_nodes\[1\]: 0 is too small; give at least 1"),
        ({"num_nodes": 1.5}, "studies.s.num_nodes: 1.5 is not of type integer or array or null; write a whole number"),
        ({"num_nodes": "two"}, 'studies.s.num_nodes: "two" is '),
        ({"num_nodes": True}, "studies.s.num_nodes: true is "),
        ({"num_nodes": []}, "studies.s.num_nodes: .* is empty"),
        ({"num_nodes": [2, 2]}, "studies.s.num_nodes: .* repeats an entry"),
        (
            {"num_nodes": [1, 2], "stop_below_efficiency": 0.5},
            r"studies.s.stop_below_efficiency: 0.5 needs curves that share no runs, and one device is on the curve of "
            r"each number of nodes; make one study of each of \[1, 2\]",
        ),
        (
            {"num_nodes": [1, 2], "train_best": 2, "epochs": 1},
            "studies.s.train_best: 2 needs curves that share no runs",
        ),
        ({"num_nodes": [1, 2], "exclude": [{"num_nodes": 3}]}, "matches no run"),
    ],
)
def test_a_wrong_number_of_nodes_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        make_plan(**changes)


def test_more_nodes_than_the_machine_has_stop_a_call():
    assert make_plan(num_nodes=[1, 2]).find_shortages() == []
    assert list_texts(make_plan(num_gpus=[3, 6], num_nodes=[1, 3]).find_shortages()) == [
        "studies.s.num_nodes: 3 exceeds the 2 of machine.yaml: devices.a100.max_nodes; lower it, or raise max_nodes if "
        "the cluster has them"
    ]
    local = Machine("machine.yaml", {"cpu": Device(8, 1)})
    assert make_plan(local, devices=["cpu"], num_nodes=1).find_shortages() == []
    assert list_texts(make_plan(local, devices=["cpu"], num_nodes=[1, 2]).find_shortages()) == [
        "studies.s.num_nodes: 2 exceeds the one node of this machine (machine.yaml); write 1, leave it out, or choose "
        "the profile of a cluster"
    ]
