"""A study with `diagnose: true` has control runs at the ends of its curves, and nothing else of it changes."""

from collections import Counter

import pytest

from helpers.messages import says
from howmanygpus.config.errors import ConfigError
from howmanygpus.invocation.rules.products import list_gradient_allreduces
from howmanygpus.report.outcomes import list_changes
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.largest.search import read_found
from howmanygpus.study.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1), "gpu": Device(4, 1, kind="cuda", max_nodes=4)})
PATTERNS = {"image_shape": [40, 40, 3], "num_classes": 3, "num_train": 4096, "num_test": 30}
DATASETS = {"patterns": {"source": "patterns", "options": PATTERNS}}
NAMES = ("control_resident_input", "control_no_exchange", "control_no_evaluation")


def make_plan(find=read_found, **changes) -> Plan:
    common = {"dataset": "patterns", "model": "resnet44", "model_options": {"blocks": 1}, "devices": ["cpu"]}
    common |= {"frameworks": ["pytorch_ddp", "chainer_mn"], "per_device_batch_size": [8], "num_gpus": [1, 2, 4]}
    return Plan({"studies": {"s": study(**common | changes)}, "datasets": DATASETS}, CPU, find)


def list_controls(plan: Plan) -> list:
    return [run for run in plan.studies["s"].runs if run.variant.startswith("control_")]


def count_devices(plan: Plan, framework: str = "pytorch_ddp") -> Counter:
    """Count the controls of a framework by name and device count."""
    return Counter((run.variant, run.num_gpus) for run in list_controls(plan) if run.framework == framework)


def test_controls_are_at_both_ends_of_each_curve_with_the_repeats_of_the_study():
    plan = make_plan(diagnose=True, repeats=3, variants={"stock": {"prefetch": 1}, "other": {}})
    expected = {(NAMES[0], 1): 3, (NAMES[0], 4): 3, (NAMES[1], 4): 3, (NAMES[2], 1): 3, (NAMES[2], 4): 3}
    for framework in ("pytorch_ddp", "chainer_mn"):
        assert count_devices(plan, framework) == expected, "one device has nothing to exchange"
    planned = plan.studies["s"]
    assert {planned.spec(run)["prefetch"] for run in list_controls(plan)} == {1}, "those of the first variant"
    described = planned.describe()["protocols"]
    assert {described[run.path]["control"] for run in list_controls(plan)} == {name[8:] for name in NAMES}


def test_nothing_but_the_controls_changes_with_the_key():
    plain, with_key = make_plan(), make_plan(diagnose=True)
    assert not list_controls(plain)
    own = {path: plain.settings[path] for path in plain.runs}
    assert own == {path: text for path, text in with_key.settings.items() if path in plain.runs}
    assert not any(key in text for text in own.values() for key in ("exchange", "evaluate"))
    assert set(with_key.parity_cells) == set(plain.parity_cells), "the gate checks the same steps"
    assert {with_key.verdicts[run.path] for run in list_controls(with_key)} <= set(plain.verdicts.values())
    spec = plain.studies["s"].spec(plain.studies["s"].runs[0])
    old = {"spec": {key: value for key, value in spec.items() if key not in ("exchange", "evaluate")}}
    assert list_changes(spec, old, {}) == [], "a run that is older than the settings exchanged and evaluated"


def test_a_control_differs_from_its_run_in_one_part_of_the_work_and_in_its_length():
    plan = make_plan(diagnose=True, epochs=9, steps=None, warmup_steps=4, window_steps=2, gradient_noise_every_epochs=1)
    planned, found = plan.studies["s"], {}
    for run in list_controls(plan):
        if run.framework == "pytorch_ddp" and run.num_gpus == 4:
            name = run.variant[8:]
            twin = next(each for each in planned.runs if each.path == planned.controls[run.path].base.path)
            spec, own = planned.spec(run), planned.spec(twin)
            found[name] = {key: spec[key] for key in spec if spec[key] != own[key]}
    assert found["no_evaluation"] == {"variant": NAMES[2], "evaluate": False}
    length = {"epochs": None, "gradient_noise_every_epochs": None}
    data = {"input": "resident", "data_dir": "results/prepared/patterns/synthetic"}
    assert found["resident_input"] == {"variant": NAMES[0], **data, **length, "steps": 4 + 5 * 2}
    optimizer = found["no_exchange"].pop("optimizer")
    assert optimizer["lr_scaling"] == "none", "each replica trains alone"
    alone = {"exchange": "none", "evaluate": False}
    assert found["no_exchange"] == {"variant": NAMES[1], **alone, **length, "steps": 4096 // 32 + 5 * 2}


def test_a_control_is_no_longer_than_the_run_that_it_repeats():
    planned = make_plan(diagnose=True, steps=12, warmup_steps=4).studies["s"]
    assert {planned.spec(run)["steps"] for run in planned.runs} == {12}


def test_a_native_loader_hands_over_no_resident_batch():
    planned = make_plan(diagnose=True, loader="native", frameworks=["pytorch_ddp"]).studies["s"]
    by_name = {run.variant: planned.spec(run)["loader"] for run in planned.runs}
    assert by_name == {
        "base": "torch.loader",
        NAMES[0]: "shared",
        NAMES[1]: "torch.loader",
        NAMES[2]: "torch.loader",
    }
    assert not any(run.unsupported for run in planned.runs)


def test_random_images_are_not_evaluated_and_a_resident_batch_has_no_control_of_its_input():
    plan = make_plan(diagnose=True, inputs=["synthetic", "resident"], num_gpus=[1, 2])
    pairs = Counter((run.variant, run.input) for run in list_controls(plan) if run.framework == "pytorch_ddp")
    assert pairs == {(NAMES[0], "resident"): 2, (NAMES[1], "synthetic"): 1, (NAMES[1], "resident"): 1}


def test_inputs_of_one_curve_share_the_control_with_a_resident_batch():
    plan = make_plan(diagnose=True, inputs=["arrays", "png"], num_gpus=[2])
    pairs = Counter((run.variant, run.input) for run in list_controls(plan) if run.framework == "pytorch_ddp")
    others = {(name, source): 1 for name in NAMES[1:] for source in ("arrays", "png")}
    assert pairs == {(NAMES[0], "resident"): 1, **others}


def test_each_batch_of_strong_scaling_has_its_own_ends():
    plan = make_plan(diagnose=True, scaling="strong", per_device_batch_size=[8, 32], frameworks=["pytorch_ddp"])
    found = {(run.num_gpus, run.per_device_batch_size) for run in list_controls(plan) if run.variant == NAMES[0]}
    assert found == {(1, 8), (4, 2), (1, 32), (4, 8)}
    both = make_plan(diagnose=True, scaling="both", frameworks=["pytorch_ddp"])
    found = {(run.num_gpus, run.per_device_batch_size) for run in list_controls(both) if run.variant == NAMES[0]}
    assert found == {(1, 8), (4, 8), (4, 2)}


def test_excluded_and_unsupported_device_counts_are_no_ends():
    plan = make_plan(diagnose=True, exclude=[{"num_gpus": 4, "framework": "pytorch_ddp"}])
    assert {count for _, count in count_devices(plan)} == {1, 2}
    plan = make_plan(diagnose=True, frameworks=["pytorch_dp"])
    assert count_devices(plan, "pytorch_dp") == {(NAMES[0], 1): 1, (NAMES[2], 1): 1}, "one CPU at most"


def test_each_number_of_nodes_has_a_curve_that_begins_on_one_device():
    plan = make_plan(diagnose=True, devices=["gpu"], num_nodes=[1, 2], frameworks=["pytorch_ddp"], num_gpus=[1, 2, 4])
    found = {(run.num_gpus, run.num_nodes or 1) for run in list_controls(plan) if run.variant == NAMES[0]}
    assert found == {(1, 1), (4, 1), (4, 2)}


def test_where_the_exchange_cannot_be_left_out_the_control_says_why():
    plan = make_plan(diagnose=True, devices=["gpu"], frameworks=["pytorch_dp", "pytorch_ddp"], num_gpus=[1, 2])
    reasons = {run.framework: run.unsupported for run in list_controls(plan) if run.variant == NAMES[1]}
    assert reasons["pytorch_ddp"] == "" and "copies to all devices in each step" in reasons["pytorch_dp"]
    plan = make_plan(
        diagnose=True, devices=["gpu"], frameworks=["keras_mirrored"], num_gpus=[1, 2], precision=["fp32", "fp16"]
    )
    reasons = {run.precision: run.unsupported for run in list_controls(plan) if run.variant == NAMES[1]}
    assert reasons["fp32"] == "" and "whether they skip it" in reasons["fp16"]


def test_controls_of_the_largest_batch_have_its_number_and_need_no_search():
    def find(record: str) -> dict:
        return {"largest": 64, "limit": "memory", "reason": "65 images do not fit"}

    plan = make_plan(find, diagnose=True, per_device_batch_size=[8, "max"], frameworks=["pytorch_ddp"])
    assert {run.per_device_batch_size for run in list_controls(plan)} == {8, 56}
    assert len(plan.searches) == 1 and len(plan.studies["s"].largest.describe()) == 1
    planned = plan.studies["s"]
    assert {planned.spec(run)["global_batch_size"] for run in list_controls(plan)} == {8, 32, 56, 224}


def test_the_all_reduce_of_the_gradients_is_measured_at_each_layout():
    def find(**changes) -> list[str]:
        plan = make_plan(**changes).studies["s"]
        return list_gradient_allreduces(plan, plan.runs)

    weights = "resnet44-blocks1_40x40x3_classes3_seed1"
    assert find() == [], "without the key"
    assert find(diagnose=True) == [f"results/probe/cpu_gpus{count}_{weights}.json" for count in (2, 4)]
    assert find(diagnose=True, num_gpus=[1]) == []
    assert find(diagnose=True, scaling="weak", variants={"alone": {"independent": True}}) == []
    spread = find(diagnose=True, devices=["gpu"], num_nodes=[1, 2], num_gpus=[1, 4])
    assert spread == [f"results/probe/gpu_gpus4{nodes}_{weights}.json" for nodes in ("", "_nodes2")]


REFUSED = [
    ({"variants": {"control_no_exchange": {}}}, ("s.variants", "control_no_exchange", "rename the variant")),
    ({"budget_device_h": 1}, ("s.diagnose", "budget_device_h", "make a study without")),
    ({"repeats": "auto"}, ("s.diagnose", "repeats: auto", "make a study without")),
    ({"stop_below_efficiency": 0.5}, ("s.diagnose", "stop_below_efficiency", "make a study without")),
]


@pytest.mark.parametrize(("changes", "said"), REFUSED)
def test_a_study_that_cannot_have_controls_is_refused(changes, said):
    with pytest.raises(ConfigError) as error:
        make_plan(diagnose=True, **changes)
    assert says(str(error.value), *said)


def plan_program(**changes) -> Plan:
    own = {"program": {"command": "python train.py {model}", "axes": {"model": ["small", "large"]}}, "devices": ["cpu"]}
    own |= {"num_gpus": [1, 2, 4], "per_device_batch_size": [8], "diagnose": True}
    return Plan({"studies": {"s": own | changes}, "datasets": {}}, CPU)


def test_the_first_variant_of_a_program_is_asked_to_leave_parts_out():
    """It evaluates as it likes, so that nothing is known without evaluation."""
    plan = plan_program(repeats=2)
    planned, controls = plan.studies["s"], list_controls(plan)
    found = Counter((run.variant, run.num_gpus) for run in controls)
    assert found == {(NAMES[0], 1): 2, (NAMES[0], 4): 2, (NAMES[1], 4): 2}
    for run in controls:
        base = planned.controls[run.path].base
        spec, own = planned.spec(run), planned.spec(base)
        assert spec["program"].pop("control") == run.variant[8:] and "control" not in own["program"]
        assert spec["program"] == own["program"] and spec["program"]["axes"] == {"model": "small"}
        assert {key for key in spec if spec[key] != own[key]} == {"variant"}
    described = planned.describe()["protocols"]
    assert {described[run.path]["control"] for run in controls} == {"resident_input", "no_exchange"}


def test_the_runs_of_a_program_are_the_same_with_controls():
    plain, with_key = plan_program(diagnose=False), plan_program()
    assert plain.settings == {path: text for path, text in with_key.settings.items() if path in plain.runs}


def test_the_exchange_of_a_program_is_measured_for_each_layout():
    planned = plan_program().studies["s"]
    assert list_gradient_allreduces(planned, planned.runs) == [
        f"results/probe/cpu_gpus{count}_of_program_s.json" for count in (2, 4)
    ]
    without = plan_program(diagnose=False).studies["s"]
    assert list_gradient_allreduces(without, without.runs) == []


@pytest.mark.parametrize("rule", [{"repeats": "auto"}, {"stop_below_efficiency": 0.5}, {"budget_device_h": 1}])
def test_an_adaptive_study_of_a_program_has_no_controls(rule):
    with pytest.raises(ConfigError) as error:
        plan_program(**rule)
    assert says(str(error.value), "s.diagnose", "make a study without")
