"""All that is wrong with a config is said in one call, each error once, where one error does not hide the others."""

import pytest

from howmanygpus.config.errors import MAX_MESSAGES, ConfigError
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
RIGHT = study(frameworks=["pytorch_ddp"], devices=["cpu"])


def read_errors(studies: dict, **config) -> list[str]:
    """Return the place of each error with what is wrong there."""
    with pytest.raises(ConfigError) as error:
        Plan({"studies": studies} | config, CPU)
    return [line.partition(";")[0] for line in str(error.value).splitlines()]


def test_all_that_breaks_the_schema():
    wrong = RIGHT | {"epoch": 3, "lr": 0.1, "num_gpus": ["two", 0], "repeats": 1.5}
    found = read_errors({"one": wrong, "two": RIGHT | {"steps": -1}}, study={}, packing=True)
    assert sorted(found) == [
        'config: unknown key "packing"',
        'config: unknown key "study"',
        'studies.one.num_gpus[0]: "two" is not of type integer',
        "studies.one.num_gpus[1]: 0 is too small",
        "studies.one.repeats: 1.5 is not of type integer or string",
        'studies.one: unknown key "epoch"',
        'studies.one: unknown key "lr"',
        "studies.two.steps: -1 is too small",
    ]


def test_all_keys_that_are_missing():
    assert read_errors({"one": {"num_gpus": [1]}}) == [
        'studies.one: the key "dataset" is missing',
        'studies.one: the key "model" is missing',
        'studies.one: the key "frameworks" is missing',
    ]


def test_a_misspelt_key_is_not_also_missing():
    wrong = {("framworks" if key == "frameworks" else key): value for key, value in RIGHT.items() if key != "model"}
    assert sorted(read_errors({"one": wrong})) == [
        'studies.one: the key "model" is missing',
        'studies.one: unknown key "framworks"',
    ]


def test_a_misspelt_key_is_reported_once_at_its_place():
    wrong = {key: value for key, value in RIGHT.items() if key != "model"}
    assert sorted(read_errors({"one": wrong, "two": RIGHT | {"modell": "resnet50"}})) == [
        'studies.one: the key "model" is missing',
        'studies.two: unknown key "modell"',
    ]


def test_all_words_of_a_study_that_are_not_known():
    words = {"model": "vgg", "dataset": "digit", "devices": ["cup"], "quality": {"metric": "acuracy"}}
    wrong = RIGHT | words | {"frameworks": ["pytorch_dd", "pytorch_ddp", "horovod"], "epochs": 1, "steps": 1}
    assert read_errors({"one": wrong}) == [
        'studies.one.frameworks[0]: "pytorch_dd" is not a known framework',
        'studies.one.frameworks[2]: "horovod" is not a known framework',
        'studies.one.model: "vgg" is not a known model',
        'studies.one.quality.metric: "acuracy" is not known',
        "studies.one: give exactly one of `epochs` and `steps`",
        'studies.one.dataset: "digit" is not a known data set',
        'studies.one.devices[0]: "cup" is no device of machine.yaml',
    ]


@pytest.mark.parametrize("name", ["pytorch_dd", "pytorch_ddp"])
def test_a_misspelt_framework_invalidates_no_other_name(name):
    wrong = RIGHT | {"frameworks": ["pytorch_dd"], "optimizer": {"by_framework": {name: {"learning_rate": 0.1}}}}
    assert read_errors({"one": wrong}) == ['studies.one.frameworks[0]: "pytorch_dd" is not a known framework']


def test_all_that_is_wrong_with_a_program():
    program = {"command": "sh train.sh {gpus}", "name": "pytorch_ddp", "report": ["(?P<step>"]}
    words = {"devices": ["cpu"], "num_gpus": [1], "per_device_batch_size": [8], "published": "chexnat"}
    assert [line.partition('"')[0] for line in read_errors({"one": {"program": program} | words})] == [
        "studies.one.program.name: ",
        "studies.one.published: ",
        "studies.one.program.command: ",
        "studies.one.program.report[0]: ",
    ]


def test_all_studies_and_data_sets():
    datasets = {"noise": {"source": "synthetik"}, "photos": {"source": "imagefoldr"}}
    given = {"one": RIGHT | {"model": "vgg"}, "two": RIGHT, "three": RIGHT | {"dataset": "noise"}}
    assert read_errors(given, datasets=datasets) == [
        'studies.one.model: "vgg" is not a known model',
        'datasets.noise.source: "synthetik" is not a known data set',
        'datasets.photos.source: "imagefoldr" is not a known data set',
    ]


def test_an_error_common_to_all_models_is_reported_once():
    assert read_errors({"one": RIGHT | {"model": ["resnet50", "vgg", "alexnet"], "dataset": "digit"}}) == [
        'studies.one.dataset: "digit" is not a known data set',
        'studies.one.model: "vgg" is not a known model',
    ]


@pytest.mark.parametrize("more", [0, 1, 2])
def test_very_many_errors_are_counted(more):
    found = read_errors({f"s{number}": RIGHT | {"steps": -number} for number in range(1, MAX_MESSAGES + more + 1)})
    said = {0: [], 1: ["and 1 more error"], 2: ["and 2 more errors"]}
    assert (len(found[:MAX_MESSAGES]), found[MAX_MESSAGES:]) == (MAX_MESSAGES, said[more])
