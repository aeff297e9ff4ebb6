"""
A wrong config is refused or warned about, and the message names the place, the value and the remedy.

Other errors have files of their own: numbers (test_config_numbers), files that cannot be read (test_config_files),
machine files (test_machine_errors), data sets (test_dataset_errors, test_checks, test_splitting, test_label_tables),
model files (test_wrong_models), programs (test_wrong_program_studies), targets and options of the command line
(test_wrong_options, test_wrong_folders), several errors in one config (test_several_errors), and
what a dry run says (workflow/test_dry_run).
"""

import math

import pytest

from helpers.messages import list_texts
from howmanygpus.config.errors import ConfigError
from howmanygpus.config.files import read_yaml
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import ROOT, study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
NOISE = {"image_shape": [8, 8, 1], "num_classes": 4, "num_train": 64, "num_test": 8}

WORDS = [
    ({"epoch": 3}, 'studies.s: unknown key "epoch"; did you mean epochs?'),
    ({"dataset": "digit"}, 'studies.s.dataset: "digit" is not a known data set; did you mean digits?'),
    ({"model": "vgg"}, 'studies.s.model: "vgg" is not a known model; choose from alexnet, densenet121, '),
    (
        {"frameworks": ["pytorch_ddpp"]},
        'frameworks[0]: "pytorch_ddpp" is not a known framework; did you mean pytorch_ddp?',
    ),
    (
        {"frameworks": ["tensorflow"]},
        'frameworks[0]: "tensorflow" is not a known framework; did you mean one of horovod_tensorflow, '
        "tensorflow_mirrored, tensorflow_multiworker?",
    ),
    ({"frameworks": ["jax"]}, 'frameworks[0]: "jax" is not a known framework; did you mean jax_sharding?'),
    (
        {"frameworks": ["PyTorch"]},
        '"PyTorch" is not a known framework; did you mean one of horovod_pytorch, pytorch_ddp,',
    ),
    ({"model": "ResNet44"}, 'studies.s.model: "ResNet44" is not a known model; did you mean resnet44?'),
    ({"scaling": "week"}, 'studies.s.scaling: "week" is not known here; did you mean weak?'),
    ({"precision": ["fp64"]}, 'studies.s.precision[0]: "fp64" is not known here; '),
    (
        {"inputs": ["tfrecord"]},
        'studies.s.inputs[0]: "tfrecord" is not known here; choose from arrays, jpeg, png, resident, synthetic',
    ),
    ({"devices": ["gpu"]}, 'studies.s.devices[0]: "gpu" is no device of machine.yaml; write cuda'),
    ({"devices": ["cdua"]}, 'studies.s.devices[0]: "cdua" is no device of machine.yaml; did you mean cuda?'),
    ({"optimizer": {"lr": 0.1}}, 'studies.s.optimizer: unknown key "lr"'),
    ({"learning_rate": 0.1}, 'studies.s: unknown key "learning_rate"; write it below `optimizer`'),
    ({"thresholds": [0.9]}, 'studies.s: unknown key "thresholds"; write it below `quality`'),
    ({"optimizer": {"name": "sdg"}}, 'studies.s.optimizer.name: "sdg" is not known here; did you mean sgd?'),
    ({"quality": {"metric": "acuracy"}}, 'quality.metric: "acuracy" is not known; did you mean accuracy?'),
    (
        {"random_resized_crop": {"size": [6, 6], "ratio": [1, 2]}},
        'studies.s.random_resized_crop: unknown key "ratio"; choose from area, aspect, size',
    ),
    ({"variants": {"Base": {}}}, '"Base" is no valid name; use lower-case letters, digits and underscores'),
    ({"variants": {"fast": {"epochs": 1}}}, 'studies.s.variants.fast: unknown key "epochs"'),
    ({"eval_devices": "one"}, 'studies.s.eval_devices: "one" is not known here; choose from all, first'),
    ({"exclude": [{"num_gpu": 1}]}, 'studies.s.exclude[0]: unknown key "num_gpu"; did you mean num_gpus?'),
    ({"loader": "own"}, 'studies.s.loader: "own" is not known here; choose from dali, native, shared'),
    (
        {"loader_kind": "fibres"},
        'studies.s.loader_kind: "fibres" is not known here; choose from null, processes, threads',
    ),
]
TYPES = [
    ({"frameworks": "pytorch_ddp"}, 'frameworks: "pytorch_ddp" is not of type array; write [pytorch_ddp]'),
    ({"num_gpus": ["two"]}, 'studies.s.num_gpus[0]: "two" is not of type integer'),
    (
        {"num_gpus": None},
        "studies.s.num_gpus: null is not of type array or string; give a value, or leave the key out if it has a "
        "default",
    ),
    ({"num_gpus": [True]}, "studies.s.num_gpus[0]: true is not of type integer; write a whole number"),
    ({"num_gpus": [1.5]}, "studies.s.num_gpus[0]: 1.5 is not of type integer; write a whole number"),
    ({"warmup_steps": "nan"}, 'studies.s.warmup_steps: "nan" is not of type integer; write a whole number'),
    ({"repeats": "nan"}, 'studies.s.repeats: "nan" does not match ^auto$; write auto, or a whole number'),
    ({"random_flip": "ja"}, 'studies.s.random_flip: "ja" is not of type boolean; write true or false'),
    ({"dataset": 5}, "studies.s.dataset: 5 is not of type string; write text, in quotes if YAML reads it as something"),
    ({"optimizer": "sgd"}, 'studies.s.optimizer: "sgd" is not of type object; write its keys below it'),
    (
        {"parity": False},
        'studies.s.parity: false is not known here; write "off" in quotes, because YAML reads a bare off',
    ),
    ({"optimizer": {"epsilon": "1e-10"}}, 'optimizer.epsilon: "1e-10" is text, not a number; write 1.0e-10, with a'),
    (
        {True: 1},
        "studies.s: the key true is not text; write it in quotes, because YAML reads a bare yes, no, on or off",
    ),
    ({"variants": {1: {}}}, "studies.s.variants: the key 1 is not text; write it in quotes"),
    ({"optimizer": {"learning_rate": "1e-4"}}, 'optimizer.learning_rate: "1e-4" is text, not a number; write 0.0001'),
    ({"crop": 6}, "studies.s.crop: 6 is not of type array or null; write [6, 6]"),
    ({"crop": [6, 6.5]}, "studies.s.crop[1]: 6.5 is not of type integer; write a whole number"),
    ({"crop": "6x6"}, 'studies.s.crop: "6x6" is not of type array or null; write'),
    ({"crop": ["6", 6]}, 'studies.s.crop[0]: "6" is text, not a number; write 6'),
    ({"random_resized_crop": [6, 6]}, "studies.s.random_resized_crop: [6, 6] is not of type object or null; write its"),
    ({"random_resized_crop": {"size": 6}}, "studies.s.random_resized_crop.size: 6 is not of type array; write [6, 6]"),
    ({"random_resized_crop": {"size": None}}, "studies.s.random_resized_crop.size: null is not of type array; give a"),
    (
        {"random_resized_crop": {"size": [6, 6], "aspect": "3/4"}},
        'studies.s.random_resized_crop.aspect: "3/4" is not of type array; write',
    ),
]
LENGTHS = [
    ({"frameworks": []}, "frameworks: [] is empty; give at least one entry"),
    ({"frameworks": ["pytorch_ddp"] * 2}, "repeats an entry; keep each once"),
    ({"crop": [6]}, "studies.s.crop: [6] has 1 entries; give 2"),
    ({"crop": [6, 6, 1]}, "studies.s.crop: [6, 6, 1] has 3 entries; give 2"),
    ({"random_resized_crop": {}}, 'studies.s.random_resized_crop: the key "size" is missing; add it'),
]
NUMBERS = [
    ({"optimizer": {"momentum": 1}}, "studies.s.optimizer.momentum: 1 is too large; give less than 1"),
    (
        {"quality": {"thresholds": [0.5, 80]}},
        "thresholds[1]: 80 is a value that accuracy never has; give one between 0 and 1",
    ),
    (
        {"quality": {"thresholds": [-0.5]}},
        "studies.s.quality.thresholds[0]: -0.5 is a value that accuracy never has; give",
    ),
    (
        {"quality": {"metric": "test_loss", "thresholds": [-1]}},
        "quality.thresholds[0]: -1 is a value that test_loss never has; give one of at least 0",
    ),
    ({"quality": {"margin": 1}}, "quality.margin: 1 takes all values of accuracy for the same; give less than 1"),
    ({"crop": [6, -6]}, "studies.s.crop[1]: -6 is too small; give at least 1"),
    (
        {"random_resized_crop": {"size": [6, 6], "area": [0, 1]}},
        "studies.s.random_resized_crop.area[0]: 0 is too small; give more than 0",
    ),
    (
        {"random_resized_crop": {"size": [6, 6], "area": [8, 100]}},
        "studies.s.random_resized_crop.area[1]: 100 is too large; give at most 1",
    ),
    (
        {"random_resized_crop": {"size": [6, 6], "aspect": [1.5, 0.5]}},
        "studies.s.random_resized_crop.aspect: [1.5, 0.5] has the largest value first; write [0.5, 1.5]",
    ),
    ({"variants": {"v": {"eval_batch_size": 0}}}, "studies.s.variants.v.eval_batch_size: 0 is too small"),
    ({"seed": 2**64}, "studies.s.seed: 18446744073709551616 is too large; give at most 4294967295"),
    (
        {"seed": 2**32 - 1, "repeats": 2},
        "studies.s.seed: 4294967295 gives repeat 2 the seed 4294967296, which is too large; give at most 4294967294",
    ),
]
SIZES = [
    (
        {"random_crop_padding": 8},
        "studies.s.random_crop_padding: 8 crops images of 8x8 pixels to nothing but padding; give",
    ),
    (
        {"variants": {"v": {"random_crop_padding": 224}}},
        "studies.s.variants.v.random_crop_padding: 224 crops images of 8x8 pixels to nothing but padding; give",
    ),
    (
        {"random_crop_padding": 6, "crop": [7, 6]},
        "studies.s.random_crop_padding: 6 crops images of 7x6 pixels to nothing but padding; give less than 6",
    ),
    (
        {"crop": [6, 9]},
        "studies.s.crop: [6, 9] is larger than the stored images, which are 8 high and 8 wide; give at most [8, 8], or",
    ),
    ({"variants": {"v": {"crop": [224, 224]}}}, "studies.s.variants.v.crop: [224, 224] is larger than the stored"),
    (
        {"random_resized_crop": {"size": [9, 8]}},
        "studies.s.random_resized_crop.size: [9, 8] is larger than the stored images, which are 8 high and 8 wide;",
    ),
    (
        {"crop": [6, 6], "variants": {"v": {"random_resized_crop": {"size": [6, 6]}}}},
        "studies.s.crop: [6, 6] has no meaning beside studies.s.variants.v.random_resized_crop, which crops each image "
        "by itself; leave one of them out, or write crop: null in the variant",
    ),
    (
        {"random_crop_padding": 2, "random_resized_crop": {"size": [6, 6]}},
        "studies.s.random_crop_padding: 2 has no meaning beside studies.s.random_resized_crop, which crops each image",
    ),
]
RUNS = [
    ({"steps": None}, "studies.s: give exactly one of `epochs` and `steps`"),
    ({"epochs": 2}, "studies.s: give exactly one of `epochs` and `steps`"),
    ({"steps": 2}, "warmup_steps: 2 leaves no step to measure of the 2 of variant base"),
    ({"per_device_batch_size": [2000]}, "2000 on 1 device is more than the 1437 training images; lower it"),
    (
        {"num_gpus": [1, 3], "scaling": "strong"},
        "studies.s.num_gpus: 3 does not divide the global batch of 64 images under strong scaling; choose",
    ),
    ({"repeats": 10**12}, "studies.s: 2000000000000 runs are more than 100000; shorten its lists or lower repeats"),
    ({"exclude": [{"num_gpus": 7}]}, 'studies.s.exclude[0]: {"num_gpus": 7} matches no run; correct or remove it'),
    (
        {"exclude": [{"model": "resnet44"}]},
        'studies.s.exclude[0]: {"model": "resnet44"} matches no run; correct or remove',
    ),
    ({"exclude": [{"input": "arrays"}]}, "studies.s.exclude: nothing is left to run"),
    ({"dataset": "synthetic"}, 'studies.s.dataset: "synthetic" cannot be made: data source synthetic missing'),
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
WRONG_STUDIES = {
    "words that are misspelt or not known here": WORDS,
    "values of another type": TYPES,
    "lists of another length": LENGTHS,
    "numbers that nothing can have": NUMBERS,
    "sizes that do not fit the images": SIZES,
    "runs that cannot be done": RUNS,
}
"""Changes of a study, and words of the message, by what is wrong."""
CASES = [(kind, *case) for kind, cases in WRONG_STUDIES.items() for case in cases]


@pytest.mark.parametrize(("kind", "changes", "message"), CASES, ids=[f"{case[0]}: {case[2][:60]}" for case in CASES])
def test_wrong_study(kind, changes, message):
    datasets = {"noise": {"source": "synthetic", "options": NOISE}}
    given = study(frameworks=["pytorch_ddp"], devices=["cpu"]) | changes
    with pytest.raises(ConfigError) as error:
        Plan({"studies": {"s": given}, "datasets": datasets}, CPU)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        (
            {"loader_workers": 1000},
            "studies.s.loader_workers: 1000 workers share the 1 core of a cpu device; more than 4",
        ),
        (
            {"variants": {"v": {"loader_workers": 5}}},
            "studies.s.variants.v.loader_workers: 5 workers share the 1 core of",
        ),
        (
            {"epochs": 2, "steps": None, "optimizer": {"lr_warmup_epochs": 5}},
            "studies.s.optimizer.lr_warmup_epochs: 5 are more than the 2 epochs of a run of variant base, whose",
        ),
        (
            {"steps": 22, "per_device_batch_size": [64], "variants": {"v": {"optimizer": {"lr_warmup_epochs": 2.5}}}},
            "studies.s.variants.v.optimizer.lr_warmup_epochs: 2.5 are more than the 2 epochs of a run of variant v,",
        ),
    ],
)
def test_doubtful_values_are_warned_about(changes, warning):
    plan = Plan({"studies": {"s": study(frameworks=["pytorch_ddp"], devices=["cpu"]) | changes}}, CPU)
    (doubt,) = list_texts(plan.find_doubts())
    assert doubt.startswith(warning)


@pytest.mark.parametrize("path", sorted((ROOT / "config").glob("*.yaml")), ids=lambda path: path.stem)
def test_no_config_that_is_shipped_is_warned_about(path):
    assert Plan(read_yaml(path), CPU).find_doubts() == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, 'config: the key "studies" is missing; add it'),
        ({"studies": {}}, "studies: {} is empty; give at least one entry"),
        ({"studies": {"s": study()}, "study": {}}, 'config: unknown key "study"; did you mean studies?'),
        ({"studies": {"My Study": study()}}, '"My Study" is no valid name'),
        (
            {"studies": {"s": study()}, "y-base": {}},
            'config: unknown key "y-base"; choose from datasets, machine, packed',
        ),
        ({"studies": {"s": study()}, "x-base": {}, "study": {}}, 'config: unknown key "study"; did you mean studies?'),
        ({"studies": [study()]}, "is not of type object; write its keys below it"),
        (
            {"studies": None},
            "studies: null is not of type object; give a value, or leave the key out if it has a default",
        ),
        ({"studies": {7: study()}}, "studies: the key 7 is not text; write it in quotes"),
        ({"studies": {"s": {"dataset": "digits"}}}, 'studies.s: the key "model" is missing; add it'),
    ],
)
def test_wrong_config(config, message):
    with pytest.raises(ConfigError) as error:
        Plan(config, CPU)
    assert message in str(error.value)


def test_anything_may_stand_under_keys_that_begin_with_x():
    anything = {1: "one", False: [math.nan, 2.0], "study": {"s": {"epoch": 3}}}
    given = study(frameworks=["pytorch_ddp"], devices=["cpu"])
    assert list(Plan({"studies": {"s": given}, "x-anything": anything, "x-": None}, CPU).studies) == ["s"]
