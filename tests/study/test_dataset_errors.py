"""A wrong data set is refused, and the message names the place, the value and the remedy."""

import pytest

from howmanygpus.config.errors import ConfigError
from howmanygpus.config.files import expand_path
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.loaders import check_inputs
from howmanygpus.study.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
NOISE = {"image_shape": [8, 8, 1], "num_classes": 4, "num_train": 64, "num_test": 8}
ARCHIVE = {"url": "https://images.example/a.zip", "sha256": "0a" * 32, "num_bytes": 2**50 + 1}


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (
            {"source": "imagefolder"},
            'datasets.mine.source: "imagefolder" is not a known data set; did you mean image_folder?',
        ),
        (
            {"source": "image_folder", "split": {"test": 0.2}},
            'datasets.mine: unknown key "split"; write it below `options`',
        ),
        (
            {"source": "synthetic", "options": NOISE | {"image_shape": [3, 224, 224]}},
            "datasets.mine.options.image_shape: [3, 224, 224] is 3 pixels high and has 224 channels; channels "
            "come last: write [224, 224, 3]",
        ),
        (
            {"source": "patterns", "options": NOISE | {"image_shape": [8, 8]}},
            "datasets.mine.options.image_shape: [8, 8] has 2 entries; give 3",
        ),
        (
            {"source": "patterns", "options": NOISE | {"image_shape": [0, 8, 1]}},
            "datasets.mine.options.image_shape[0]: 0 is too small; give at least 1",
        ),
        (
            {"source": "patterns", "options": NOISE | {"image_shape": 8}},
            "datasets.mine.options.image_shape: 8 is not of type array; write [8, 8, 8]",
        ),
        (
            {"source": "synthetic", "options": NOISE | {"num_train": -64}},
            "datasets.mine.options.num_train: -64 is too small",
        ),
        (
            {"source": "synthetic", "options": NOISE | {"num_classes": 0}},
            "datasets.mine.options.num_classes: 0 is too small",
        ),
        (
            {"source": "synthetic", "options": NOISE | {"num_test": 8.0}},
            "options.num_test: 8.0 is not of type integer; write 8",
        ),
        (
            {"source": "synthetic", "options": NOISE | {"num_train": 10**15}},
            "takes 57 PiB; lower num_train, num_test or image",
        ),
        (
            {"source": "image_folder", "options": {"folder": ".", "size": [224, 100000]}},
            "datasets.mine.options.size: [224, 100000] has a side of more than 65535 pixels, the most that a JPEG file",
        ),
        (
            {"source": "image_folder", "options": {"downloads": [ARCHIVE]}},
            "datasets.mine.options.downloads[0].num_bytes: 1125899906842625 is too large; give at most 11258999",
        ),
        (
            {"source": "image_folder", "options": {"folder": "~/pets"}},
            'datasets.mine.options.folder: "/home/me/pets" is not a folder here',
        ),
        (
            {"source": "image_csv", "options": {"folder": ".", "table": "${HOME}/table.csv"}},
            'datasets.mine.options.table: "/home/me/table.csv" is not a file here',
        ),
        (
            {"source": "image_folder", "options": {"folder": "$NOWHERE/pets"}},
            'datasets.mine.options.folder: "$NOWHERE/pets" has a variable or a user that is not known here; write the',
        ),
        (
            {"source": "cifar10", "options": {"folder": "a" * 300}},
            'datasets.mine: "mine" cannot be made: [Errno 36] File',
        ),
        (
            {"source": "cifar10", "options": {"folder": "~nobody_here/cifar"}},
            "has a variable or a user that is not known here",
        ),
        (
            {"source": "digits", "options": {"folder": "."}},
            'datasets.mine: "mine" cannot be made: data source digits got an',
        ),
    ],
)
def test_wrong_dataset(dataset, message, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    with pytest.raises(ConfigError) as error:
        Plan({"studies": {"s": study(dataset="mine", frameworks=["pytorch_ddp"])}, "datasets": {"mine": dataset}}, CPU)
    assert message in str(error.value)


def test_a_folder_that_exists_is_taken_as_it_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "$HOME").mkdir()
    (tmp_path / "~").mkdir()
    for name in ("$HOME", "~", "/nowhere", "pets"):
        assert expand_path(name, "here") == name


def test_images_that_no_file_can_hold_are_refused():
    message = r'inputs: \["arrays", "png"\] with images of 5 channels; leave png out, which are written of 1 or 3'
    with pytest.raises(ConfigError, match=message):
        check_inputs("studies.s.inputs", ["arrays", "png"], "digits", (8, 8, 5))
