"""A wrong config or machine file is refused, and the message names the place, the value and the remedy."""

import pytest
import yaml

from howmanygpus.plan.config.errors import ConfigError
from howmanygpus.plan.config.machine import Device, Machine, find_machine_file, read_machine
from howmanygpus.plan.loaders import check_inputs
from howmanygpus.plan.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
NOISE = {"image_shape": [8, 8, 1], "num_classes": 4, "num_train": 64, "num_test": 8}

WRONG_STUDIES = [
    ({"epoch": 3}, 'studies.s: unknown key "epoch"; did you mean epochs?'),
    ({"dataset": "digit"}, 'studies.s.dataset: "digit" is not a known data set; did you mean digits?'),
    ({"model": "vgg"}, 'studies.s.model: "vgg" is not a known model; choose from resnet44, small_cnn'),
    (
        {"frameworks": ["pytorch_ddpp"]},
        'frameworks[0]: "pytorch_ddpp" is not a known framework; did you mean pytorch_ddp?',
    ),
    ({"frameworks": "pytorch_ddp"}, 'frameworks: "pytorch_ddp" is not of type array; write [pytorch_ddp]'),
    ({"frameworks": []}, "frameworks: [] is empty; give at least one entry"),
    ({"frameworks": ["pytorch_ddp"] * 2}, "repeats an entry; keep each once"),
    ({"num_gpus": [0]}, "studies.s.num_gpus[0]: 0 is too small; give at least 1"),
    ({"num_gpus": ["two"]}, 'studies.s.num_gpus[0]: "two" is not of type integer'),
    ({"scaling": "week"}, 'studies.s.scaling: "week" is not known here; did you mean weak?'),
    ({"tier": "equal"}, 'studies.s.tier: "equal" is not known here; this tier is now stock, which no longer switches'),
    ({"variants": {"v": {"tier": "equal"}}}, 'studies.s.variants.v.tier: "equal" is not known here; this tier is now'),
    ({"precision": ["fp64"]}, 'studies.s.precision[0]: "fp64" is not known here; '),
    (
        {"inputs": ["tfrecord"]},
        'studies.s.inputs[0]: "tfrecord" is not known here; choose from arrays, jpeg, png, resident, synthetic',
    ),
    ({"devices": ["gpu"]}, 'studies.s.devices[0]: "gpu" is no device of machine.yaml; '),
    ({"optimizer": {"learning_rate": "1e-4"}}, 'optimizer.learning_rate: "1e-4" is text, not a number; write 0.0001'),
    ({"optimizer": {"lr": 0.1}}, 'studies.s.optimizer: unknown key "lr"'),
    ({"optimizer": {"name": "sdg"}}, 'studies.s.optimizer.name: "sdg" is not known here; did you mean sgd?'),
    ({"optimizer": {"momentum": 1}}, "studies.s.optimizer.momentum: 1 is too large; give less than 1"),
    ({"optimizer": {"learning_rate": 0}}, "studies.s.optimizer.learning_rate: 0 is too small; give more than 0"),
    ({"quality": {"metric": "acuracy"}}, 'quality.metric: "acuracy" is not known; did you mean accuracy?'),
    ({"variants": {"Base": {}}}, '"Base" is no valid name; use lower-case letters, digits and underscores'),
    ({"variants": {"fast": {"epochs": 1}}}, 'studies.s.variants.fast: unknown key "epochs"'),
    ({"steps": None}, "studies.s: give exactly one of `epochs` and `steps`"),
    ({"epochs": 2}, "studies.s: give exactly one of `epochs` and `steps`"),
    ({"steps": 2}, "warmup_steps: 2 leaves no step to measure of the 2 of variant base"),
    ({"per_device_batch_size": [2000]}, "2000 on 1 devices is more than the 1437 training images; lower it"),
    (
        {"num_gpus": [1, 3], "scaling": "strong"},
        "studies.s.num_gpus: 3 does not divide the global batch of 64 images under strong scaling; choose",
    ),
    ({"prefetch": -1}, "studies.s.prefetch: -1 is too small; give at least 0"),
    ({"eval_devices": "one"}, 'studies.s.eval_devices: "one" is not known here; choose from all, first'),
    ({"variants": {"v": {"eval_batch_size": 0}}}, "studies.s.variants.v.eval_batch_size: 0 is too small"),
    ({"exclude": [{"num_gpus": 7}]}, 'studies.s.exclude[0]: {"num_gpus": 7} matches no run; correct or remove it'),
    ({"exclude": [{"num_gpu": 1}]}, 'studies.s.exclude[0]: unknown key "num_gpu"; did you mean num_gpus?'),
    ({"exclude": [{"input": "arrays"}]}, "studies.s.exclude: nothing is left to run"),
    ({"dataset": "synthetic"}, 'studies.s.dataset: "synthetic" cannot be made: data source synthetic missing'),
    ({"loader": "own"}, 'studies.s.loader: "own" is not known here; choose from native, shared'),
    (
        {"loader_kind": "fibres"},
        'studies.s.loader_kind: "fibres" is not known here; choose from null, processes, threads',
    ),
    (
        {"loader_kind": "processes"},
        'studies.s.loader_kind: "processes" is a choice of native loaders; the shared one has threads; leave it out or',
    ),
    (
        {"variants": {"own": {"loader": "native", "loader_kind": "threads"}, "odd": {"loader_kind": "threads"}}},
        'studies.s.variants.odd.loader_kind: "threads" is a choice of native loaders',
    ),
    (
        {"dataset": "noise"},
        'studies.s.inputs: ["arrays"] with a synthetic data set; write [synthetic], [resident] or both',
    ),
]


@pytest.mark.parametrize(("changes", "message"), WRONG_STUDIES, ids=[message[:60] for _, message in WRONG_STUDIES])
def test_wrong_study(changes, message):
    datasets = {"noise": {"source": "synthetic", "options": NOISE}}
    given = study(**{"frameworks": ["pytorch_ddp"], "devices": ["cpu"], **changes})
    with pytest.raises(ConfigError) as error:
        Plan({"studies": {"s": given}, "datasets": datasets}, CPU)
    assert message in str(error.value)


def test_images_that_no_file_can_hold_are_refused():
    message = r'inputs: \["arrays", "png"\] with images of 5 channels; leave png out, which are written of 1 or 3'
    with pytest.raises(ConfigError, match=message):
        check_inputs("studies.s.inputs", ["arrays", "png"], "digits", (8, 8, 5))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, 'config: the key "studies" is missing; add it'),
        ({"studies": {}}, "studies: {} is empty; give at least one entry"),
        ({"studies": {"s": study()}, "study": {}}, 'config: unknown key "study"; did you mean studies?'),
        ({"studies": {"My Study": study()}}, '"My Study" is no valid name'),
        ({"studies": {"s": {"dataset": "digits"}}}, 'studies.s: the key "model" is missing; add it'),
    ],
)
def test_wrong_config(config, message):
    with pytest.raises(ConfigError) as error:
        Plan(config, CPU)
    assert message in str(error.value)


def test_a_model_without_a_file_for_the_family_is_refused(monkeypatch, tmp_path):
    (tmp_path / "half_done").mkdir()
    (tmp_path / "half_done" / "parameters.py").touch()
    monkeypatch.setattr("howmanygpus.plan.studies.MODELS", tmp_path)
    with pytest.raises(ConfigError, match=r"is not written for pytorch_ddp; write models/half_done/torch.py or leave"):
        Plan({"studies": {"s": study(frameworks=["pytorch_ddp"], model="half_done")}}, CPU)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gpus": 4}, 'unknown key "gpus"'),
        ({"devices": {"A100": {}}}, 'devices: "A100" is no valid name; use lower-case letters, digits and dashes'),
        (
            {"devices": {"cpu": {"devices_per_node": 0}}},
            "devices_per_node: 0 is too small; give at least 1",
        ),
        ({"devices": {"cpu": {"cores_per_device": "all"}}}, 'cores_per_device: "all" is not of type integer or null'),
    ],
)
def test_wrong_machine_file(tmp_path, values, message):
    path = tmp_path / "machine.yaml"
    path.write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError) as error:
        read_machine(path)
    assert message in str(error.value)


def test_a_missing_machine_file_is_refused():
    with pytest.raises(ConfigError, match=r"machine: nowhere.yaml does not exist; name an existing machine file"):
        find_machine_file("nowhere.yaml", [])


def test_the_machine_file_stands_beside_the_profile(tmp_path, monkeypatch):
    for variable in ("SNAKEMAKE_PROFILE", "HOWMANYGPUS_MACHINE"):
        monkeypatch.delenv(variable, raising=False)
    path = tmp_path / "machine.yaml"
    path.touch()
    assert find_machine_file(None, ["snakemake", "--profile", str(tmp_path)]) == path
    monkeypatch.delenv("HOWMANYGPUS_MACHINE")
    assert find_machine_file(None, ["snakemake", f"--profile={tmp_path}"]) == path
    assert find_machine_file(None, ["snakemake"]) == path, "jobs find it through the environment"
