"""Studies are expanded into runs."""

import copy
import dataclasses
import itertools
import json
import re

import pytest
import yaml

from helpers.messages import list_texts, says
from helpers.specs import OPTIMIZER
from howmanygpus.config.files import read_yaml
from howmanygpus.config.findings import Severity
from howmanygpus.config.schema import fill_defaults, read_schema
from howmanygpus.invocation.plans import hash_plan
from howmanygpus.measure.spec import OptimizerSpec, RunSpec
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.machine import Device, Machine, read_machine
from howmanygpus.study.grid import MAX_RUNS
from howmanygpus.study.loaders import NATIVE_LOADERS
from howmanygpus.study.plan import Plan
from project import ROOT, study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
GPU = Machine("machine.yaml", {"cpu": Device(8, 1), "cuda": Device(4, 6)})

SHIPPED = sorted((ROOT / "config").glob("*.yaml"))
PUBLISHED = sorted((ROOT / "config" / "published").glob("*.yaml"))
"""Configs of published studies, which tests/study/test_published_studies.py plans with folders of data."""


def make_plan(machine=CPU, **changes) -> Plan:
    given = study(**{"frameworks": ["pytorch_ddp"], "devices": ["cpu"], **changes})
    return Plan({"studies": {"small": given}}, machine)


def cells(plan):
    return sorted((run.num_gpus, run.per_device_batch_size) for run in plan.runs.values())


def test_weak_scaling_keeps_the_batch_of_a_device():
    assert cells(make_plan(num_gpus=[1, 2], per_device_batch_size=[32, 64])) == [(1, 32), (1, 64), (2, 32), (2, 64)]


def test_strong_scaling_keeps_the_global_batch_of_the_smallest_count():
    plan = make_plan(num_gpus=[2, 4], per_device_batch_size=[64], scaling="strong")
    assert cells(plan) == [(2, 64), (4, 32)]
    assert plan.studies["small"].curves == {"strong": [128]}


def test_both_is_the_union_and_shared_cells_run_once():
    plan = make_plan(num_gpus=[1, 2], per_device_batch_size=[32, 64], scaling="both")
    assert cells(plan) == [(1, 32), (1, 64), (2, 16), (2, 32), (2, 64)]


def test_exclude_can_leave_out_single_repeats():
    plan = make_plan(inputs=["arrays", "synthetic"], repeats=2, exclude=[{"input": "synthetic", "repeat": 2}])
    repeats = {
        source: {run.repeat for run in plan.runs.values() if run.input == source} for source in ("arrays", "synthetic")
    }
    assert repeats == {"arrays": {1, 2}, "synthetic": {1}}


def test_exclude_drops_runs_that_match_all_of_its_keys():
    plan = make_plan(per_device_batch_size=[32, 64], exclude=[{"num_gpus": 2, "per_device_batch_size": 64}])
    assert cells(plan) == [(1, 32), (1, 64), (2, 32)]


def test_repeats_have_seeds_of_their_own_and_share_them_across_frameworks():
    plan = make_plan(frameworks=["pytorch_ddp", "keras_mirrored"], repeats=2, seed=7)
    seeds = {(run.framework, run.repeat): plan.studies["small"].seed(run) for run in plan.runs.values()}
    assert seeds == {(name, repeat): 6 + repeat for name in ("pytorch_ddp", "keras_mirrored") for repeat in (1, 2)}


def test_auto_is_cuda_where_there_is_a_gpu():
    assert {run.device for run in make_plan(GPU, devices=["auto"]).runs.values()} == {"cuda"}
    assert {run.device for run in make_plan(CPU, devices=["auto"]).runs.values()} == {"cpu"}


@pytest.mark.parametrize("cores", [2, 8])
def test_the_study_of_cores_uses_a_machine_by_devices_of_one_core_and_of_several(monkeypatch, cores):
    monkeypatch.setattr("howmanygpus.site.machine.count_cores", lambda: cores)
    config, machine = read_yaml(ROOT / "config" / "cpu" / "cores.yaml"), ROOT / "config" / "cpu" / "machine.yaml"
    config["studies"]["cpu_cores"]["devices"] = [f"cpu{number}" for number in (1, 2, 4, 8) if number <= cores]
    plan = Plan(config, read_machine(machine))
    largest: dict[str, int] = {}
    for run in plan.runs.values():
        largest[run.device] = max(run.num_gpus, largest.get(run.device, 0))
    assert largest == {f"cpu{number}": cores // number for number in (1, 2, 4, 8) if number <= cores}
    assert not any(run.unsupported for run in plan.runs.values()) and plan.find_doubts() == []


def test_a_precision_that_the_device_lacks_is_planned_as_unsupported():
    reasons = {run.precision: run.unsupported for run in make_plan(precision=["fp32", "tf32"]).runs.values()}
    assert reasons["fp32"] == ""
    assert says(reasons["tf32"], "pytorch_ddp", "fp32, bf16, fp16", "cpu", "tf32")


def test_fp16_is_for_families_whose_users_have_loss_scaling():
    frameworks = list(FRAMEWORKS)
    for machine, device in ((CPU, "cpu"), (GPU, "cuda")):
        plan = make_plan(machine, frameworks=frameworks, precision=["fp16"], num_gpus=[1], devices=[device])
        reasons = {run.framework: run.unsupported for run in plan.runs.values()}
        lacking = {name for name, entry in FRAMEWORKS.items() if entry.family not in ("torch", "keras")}
        assert {name for name, reason in reasons.items() if reason} == lacking
        assert all(
            reasons[name].endswith("not fp16, which needs a loss scaling that it lacks here") for name in lacking
        )


def test_powersgd_is_not_for_fp16():
    variants = {"powersgd": {"gradient_compression": "powersgd"}}
    reasons = {
        run.precision: run.unsupported for run in make_plan(precision=["bf16", "fp16"], variants=variants).runs.values()
    }
    assert reasons["bf16"] == ""
    assert reasons["fp16"].startswith("pytorch_ddp has no powersgd compression in fp16")


def test_a_compression_that_a_framework_lacks_is_planned_as_unsupported():
    variants = {"none": {}, "fp16": {"gradient_compression": "fp16"}}
    plan = make_plan(frameworks=["pytorch_ddp", "pytorch_dp"], num_gpus=[1], variants=variants)
    reasons = {(run.framework, run.variant): run.unsupported for run in plan.runs.values() if run.unsupported}
    assert reasons == {("pytorch_dp", "fp16"): "pytorch_dp has no fp16 compression of gradients"}


def test_horovods_synchronized_batchnorm_is_for_gpus_or_keras_2_and_the_reason_says_so():
    frameworks = ["horovod_pytorch", "horovod_tensorflow", "horovod_keras", "pytorch_ddp", "chainer_mn"]
    gpus = Machine("machine.yaml", {"cuda": Device(4, 6, kind="cuda")})
    for machine, kind in ((CPU, "cpu"), (gpus, "cuda")):
        plan = make_plan(machine, frameworks=frameworks, batchnorm="synchronized", num_gpus=[2], devices=[kind])
        reasons = {run.framework: run.unsupported for run in plan.runs.values()}
        assert says(reasons["horovod_pytorch"], "horovod_pytorch", f"on {kind}", "SyncBatchNorm", "for GPUs only")
        for framework in ("horovod_tensorflow", "horovod_keras"):
            assert says(reasons[framework], framework, f"on {kind}", "a layer of Keras 2, and this is Keras 3")
        assert reasons["chainer_mn"] == ""
        assert bool(reasons["pytorch_ddp"]) == (kind == "cpu")
    one = make_plan(frameworks=frameworks[:3], batchnorm="synchronized", num_gpus=[1])
    assert not any(run.unsupported for run in one.runs.values()), "one device has nothing to synchronize"


def reasons_of(plan) -> dict[str, str]:
    """Return why a combination of framework, variant and input does not run; empty if it runs."""
    return {f"{run.framework} {run.variant} {run.input}": run.unsupported for run in plan.runs.values()}


def test_a_loader_that_a_framework_lacks_is_planned_as_unsupported():
    variants = {"native": {"loader": "native"}, "threads": {"loader": "native", "loader_kind": "threads"}}
    frameworks = ["pytorch_ddp", "tensorflow_mirrored", "jax_sharding"]
    inputs = ["arrays", "png", "synthetic", "resident"]
    reasons = reasons_of(make_plan(frameworks=frameworks, variants=variants, inputs=inputs, num_gpus=[1]))
    assert reasons["pytorch_ddp native arrays"] == reasons["tensorflow_mirrored threads png"] == ""
    assert says(reasons["pytorch_ddp threads png"], "pytorch_ddp", "processes", "threads")
    assert says(reasons["tensorflow_mirrored native arrays"], "tensorflow_mirrored", "png, jpeg", "arrays")
    assert reasons["jax_sharding native png"].startswith("jax_sharding has no loader of its own")
    assert reasons["pytorch_ddp native synthetic"].startswith("synthetic input is there to leave loading out")
    assert reasons["pytorch_ddp native resident"].startswith("resident input is there to leave loading out")


def test_dali_is_a_loader_of_pytorch_alone_and_has_an_environment_of_its_own():
    frameworks = ["pytorch_ddp", "pytorch_dp", "horovod_pytorch", "keras_mirrored"]
    variants = {"shared": {}, "dali": {"loader": "dali"}, "processes": {"loader": "dali", "loader_kind": "processes"}}
    variants["resized"] = {"loader": "dali", "random_resized_crop": {"size": [8, 8]}}
    inputs = ["png", "jpeg", "arrays", "synthetic"]
    plan = make_plan(frameworks=frameworks, variants=variants, inputs=inputs, num_gpus=[1], parity="required")
    reasons = reasons_of(plan)
    for framework in frameworks[:2]:
        assert reasons[f"{framework} dali png"] == reasons[f"{framework} dali jpeg"] == ""
    for framework in frameworks[2:]:
        assert says(reasons[f"{framework} dali png"], "loader: dali is a choice of pytorch_ddp, pytorch_dp", framework)
    assert says(reasons["pytorch_ddp dali arrays"], "DALI", "reads png, jpeg, not arrays")
    assert says(reasons["pytorch_ddp processes png"], "DALI", "has threads, not processes")
    assert says(reasons["pytorch_ddp resized png"], "DALI", "random_resized_crop")
    assert reasons["pytorch_ddp dali synthetic"].startswith("synthetic input is there to leave loading out")
    environments = {
        run.variant: plan.cells[path].environment
        for path, run in plan.runs.items()
        if run.framework == "pytorch_ddp" and run.input == "png" and not run.unsupported
    }
    assert environments == {"shared": "pytorch-cpu", "dali": "pytorch-dali-cpu"}
    observed = [{cell.environment for cell in group.cells} for group in plan.parity_groups.values()]
    assert all(len(names) == 1 for names in observed), "one start of a framework has one environment"
    assert {"pytorch-cpu"} in observed and {"pytorch-dali-cpu"} in observed


def test_the_loss_on_the_first_device_is_a_choice_of_gluon():
    variants = {"first": {"loss_on_first_device": True}}
    frameworks = ["mxnet_gluon", "pytorch_dp", "jax_sharding"]
    reasons = reasons_of(make_plan(frameworks=frameworks, variants=variants, num_gpus=[1]))
    assert reasons["mxnet_gluon first arrays"] == ""
    assert says(reasons["pytorch_dp first arrays"], "mxnet_gluon", "pytorch_dp does so")
    assert says(reasons["jax_sharding first arrays"], "mxnet_gluon", "jax_sharding computes it on each device")


@pytest.mark.parametrize(("device", "supported"), [("cpu", set()), ("cuda", {"keras_mirrored", "horovod_tensorflow"})])
def test_growth_of_memory_is_a_choice_of_tensorflow_on_gpus(device, supported):
    frameworks, variants = ["keras_mirrored", "horovod_tensorflow", "pytorch_ddp"], {"off": {"memory_growth": False}}
    machine = Machine("machine.yaml", {"cpu": Device(8, 1), "cuda": Device(4, 6, kind="cuda")})
    plan = make_plan(machine, frameworks=frameworks, variants=variants, num_gpus=[1], devices=[device])
    assert {run.framework for run in plan.runs.values() if not run.unsupported} == supported
    reasons = [run.unsupported for run in plan.runs.values() if run.unsupported]
    assert all(says(reason, "memory_growth", "TensorFlow", device) for reason in reasons)


def test_every_framework_keeps_a_batch_of_the_synthetic_images_resident():
    frameworks = [name for name in FRAMEWORKS if name != "pytorch_dp"]
    study = make_plan(frameworks=frameworks, inputs=["resident"], num_gpus=[2]).studies["small"]
    assert len(study.runs) == len(frameworks) and not any(run.unsupported for run in study.runs)
    assert {study.data_dir(run) for run in study.runs} == {"results/prepared/digits/synthetic"}


def test_a_specification_names_the_frameworks_own_loader_and_its_usual_workers():
    frameworks = ["pytorch_ddp", "keras_mirrored", "jax_sharding"]
    variants = {"shared": {}, "native": {"loader": "native", "loader_workers": 3}}
    plan = make_plan(frameworks=frameworks, variants=variants, num_gpus=[1])
    specs = [plan.studies["small"].spec(run) for run in plan.runs.values()]
    keys = ("framework", "variant", "loader", "loader_kind", "loader_workers")
    assert [tuple(spec[key] for key in keys) for spec in specs if spec["framework"] != "jax_sharding"] == [
        ("pytorch_ddp", "shared", "shared", "threads", 1),
        ("pytorch_ddp", "native", "torch.loader", "processes", 3),
        ("keras_mirrored", "shared", "shared", "threads", 1),
        ("keras_mirrored", "native", "keras.loader", "threads", 3),
    ]


def test_every_native_loader_is_a_module_that_some_framework_uses():
    used = {name for entry in FRAMEWORKS.values() for name in (entry.native_loader, entry.dali_loader)} - {None}
    assert used == set(NATIVE_LOADERS)
    frameworks = ROOT / "workflow/lib/howmanygpus/measure/frameworks"
    assert all(frameworks.joinpath(*name.split(".")).with_suffix(".py").exists() for name in used)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_config_that_is_shipped_can_be_planned(path):
    plan = Plan(yaml.safe_load(path.read_text()), CPU)
    assert any(not run.unsupported for run in plan.runs.values())


def test_no_two_configs_that_are_shipped_name_a_study_alike():
    names = [name for path in [*SHIPPED, *PUBLISHED] for name in yaml.safe_load(path.read_text())["studies"]]
    assert len(names) == len(set(names))


def test_a_planned_spec_is_a_valid_run_spec():
    plan = make_plan(variants={"base": {}, "flipped": {"random_flip": True, "optimizer": {"momentum": 0.5}}})
    run = next(run for run in plan.runs.values() if run.variant == "flipped" and run.num_gpus == 2)
    spec = RunSpec.from_dict(plan.studies["small"].spec(run))
    assert (spec.global_batch_size, spec.random_flip, spec.optimizer.momentum) == (128, True, 0.5)
    assert spec.optimizer.learning_rate == 0.1, "a variant changes only what it names"


def test_optimizer_defaults_of_the_schema_are_complete():
    schema = read_schema("config")
    defaults = fill_defaults({}, schema["$defs"]["optimizer"], schema)
    assert set(defaults) - {"by_framework"} == set(OPTIMIZER) == set(OptimizerSpec.__dataclass_fields__)


def test_a_setting_equal_to_its_default_leaves_no_trace():
    plain, spelled_out = make_plan(), make_plan(window_steps=50, optimizer={"momentum": 0.9}, variants={"base": {}})
    assert plain.settings == spelled_out.settings
    assert hash_plan(plain, "small") == hash_plan(spelled_out, "small")


@pytest.mark.parametrize(
    "change", [{"window_steps": 10}, {"optimizer": {"momentum": 0.5}}, {"seed": 2}, {"model": "resnet44"}]
)
def test_a_setting_that_changes_the_training_changes_the_settings_text(change):
    assert set(make_plan().settings.values()).isdisjoint(make_plan(**change).settings.values())


@pytest.mark.parametrize(
    "change", [{"time_limit_min": 5}, {"quality": {"thresholds": [0.5]}}, {"repeats": 3}, {"num_gpus": [1, 2, 4]}]
)
def test_a_setting_that_does_not_change_a_run_leaves_its_settings_text(change):
    before, after = make_plan().settings, make_plan(**change).settings
    assert before.items() <= after.items()


def test_cores_of_a_device_change_the_settings_text():
    two_cores = Machine("machine.yaml", {"cpu": Device(4, 2)})
    assert set(make_plan().settings.values()).isdisjoint(make_plan(two_cores).settings.values())


def list_blocks(plan: Plan) -> list[list[str]]:
    """Return the runs of each repeat in the order of their priorities, without the number of the repeat."""
    ordered = sorted(plan.runs.values(), key=lambda run: -plan.priorities[run.path])
    blocks = itertools.groupby(ordered, key=lambda run: run.repeat)
    return [[run.path.rpartition("_repeat")[0] for run in block] for _, block in blocks]


def test_repeats_are_blocks_that_follow_one_another():
    plan = make_plan(repeats=5, num_gpus=[1, 2, 4], per_device_batch_size=[8, 16])
    ordered = sorted(plan.runs.values(), key=lambda run: -plan.priorities[run.path])
    num_configurations = len(plan.runs) // 5
    assert [run.repeat for run in ordered] == [repeat for repeat in range(1, 6) for _ in range(num_configurations)]
    assert sorted(plan.priorities.values()) == list(range(1, len(plan.runs) + 1))


def test_each_block_is_a_random_permutation_by_the_seed_of_the_study():
    changes = {"num_gpus": [1, 2, 4, 8], "per_device_batch_size": [8, 16, 32]}
    blocks = list_blocks(make_plan(repeats=4, **changes))
    configurations = [path.rpartition("_repeat")[0] for path in make_plan(**changes).runs]
    assert all(sorted(block) == sorted(configurations) for block in blocks)
    assert len({tuple(block) for block in [*blocks, configurations]}) == 5, "no two orders are the same"
    assert blocks == list_blocks(make_plan(repeats=4, **changes))
    assert blocks[:2] == list_blocks(make_plan(repeats=2, **changes)), "more repeats leave the first blocks as they are"
    assert blocks != list_blocks(make_plan(repeats=4, seed=2, **changes))


def test_what_runs_wait_for_has_a_higher_priority_than_any_run():
    rules = {path.stem: path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk")}
    before_runs = int(re.search(r"^BEFORE_RUNS = (\d+)$", rules["prepare"], re.MULTILINE)[1])
    assert before_runs > MAX_RUNS
    for rule in ("prepare_synthetic", "prepare_images", "initialize_weights"):
        body = re.search(rf"^rule {rule}:(.*?)^    shell:", rules["prepare"], re.MULTILINE | re.DOTALL)[1]
        assert "priority: BEFORE_RUNS" in body
    assert rules["weights"].count("priority: BEFORE_RUNS") == rules["weights"].count("\nrule ")


def test_findings_name_place_and_remedy_and_shortages_alone_stop_a_call():
    plan = make_plan(num_gpus=[1, 16], per_device_batch_size=[8], prefetch=1000, loader_workers=99)
    found = plan.find()
    assert [finding.severity for finding in found] == [Severity.WARNING] * 2 + [Severity.ERROR]
    assert [(finding.place, finding.value) for finding in found] == [
        ("studies.small.loader_workers", 99),
        ("studies.small.prefetch", 1000),
        ("studies.small.num_gpus", 16),
    ]
    assert all(says(finding, finding.place, finding.value, finding.problem, finding.remedy) for finding in found)


def test_planning_leaves_the_config_as_it_was_given():
    options = {"num_gpus": "auto", "per_device_batch_size": "max", "variants": {"a": {"optimizer": {"momentum": 0.5}}}}
    given = {"studies": {"small": study(frameworks=["pytorch_ddp"], devices=["cpu"], num_nodes=1, **options)}}
    before = copy.deepcopy(given)
    studies = Plan(given, CPU).studies
    assert given == before and studies["small"].config["num_gpus"] == [1, 2, 4, 8]


def test_more_devices_than_the_machine_has_are_a_shortage_not_an_error():
    plan = make_plan(num_gpus=[1, 16], per_device_batch_size=[8])
    assert list_texts(plan.find_shortages()) == [
        "studies.small.num_gpus: 16 exceeds the 8 cpu devices of this machine (machine.yaml); "
        "lower it or choose another profile"
    ]


def test_a_run_is_planned_once_even_if_two_modes_ask_for_it():
    plan = make_plan(num_gpus=[1, 2, 4], per_device_batch_size=[16, 32, 64], scaling="both")
    assert len(plan.runs) == sum(len(study.runs) for study in plan.studies.values())


def test_every_framework_measures_gradient_noise_and_a_new_one_is_not_asked_to(monkeypatch):
    assert all(entry.measures_noise for entry in FRAMEWORKS.values())
    new = dataclasses.replace(FRAMEWORKS["jax_sharding"], measures_noise=False)
    monkeypatch.setitem(FRAMEWORKS, "jax_sharding", new)
    plan = make_plan(frameworks=["pytorch_ddp", "jax_sharding"], gradient_noise_every_epochs=2)
    asked = {plan.runs[path].framework: json.loads(settings) for path, settings in plan.settings.items()}
    assert asked["pytorch_ddp"]["gradient_noise_every_epochs"] == 2
    assert "gradient_noise_every_epochs" not in asked["jax_sharding"]
