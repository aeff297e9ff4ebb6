"""A prepared folder is written as a whole, and read back as it was written."""

import hashlib
import json

import numpy as np
import pytest

from helpers.specs import make_data
from howmanygpus.measure.input.description import read_description, verify_data
from howmanygpus.measure.input.prepared import ARRAYS, open_data
from howmanygpus.measure.input.writing import write_data, write_prepared


def read_lines(folder) -> list[list[str]]:
    return [line.split("\t") for line in (folder / "manifest.tsv").read_text().splitlines()]


@pytest.mark.parametrize("channels", [1, 3])
def test_data_are_read_as_they_were_written(tmp_path, channels):
    given = make_data(image_shape=(5, 7, channels))
    write_data(tmp_path / "arrays", given)
    data, description = open_data(tmp_path / "arrays"), read_description(tmp_path / "arrays")
    for name in ARRAYS:
        assert np.array_equal(getattr(data, name), getattr(given, name))
    assert (data.num_classes, data.channel_mean, data.channel_std) == (10, given.channel_mean, given.channel_std)
    assert (description["num_train"], description["num_test"], description["image_shape"]) == (40, 13, [5, 7, channels])
    assert set(description["sha256"]) == {"manifest.tsv", *(f"{name}.npy" for name in ARRAYS)}
    verify_data(tmp_path / "arrays", description)


def test_the_manifest_has_split_label_and_hash_of_every_image(tmp_path):
    given = make_data(num_train=3, num_test=2)
    write_data(tmp_path / "arrays", given)
    expected = [["index", "split", "label", "sha256"]]
    for split in ("train", "test"):
        images, labels = getattr(given, f"{split}_images"), getattr(given, f"{split}_labels")
        expected += [
            [str(index), split, str(label), hashlib.sha256(image.tobytes()).hexdigest()]
            for index, (image, label) in enumerate(zip(images, labels, strict=True))
        ]
    assert read_lines(tmp_path / "arrays") == expected


def test_labels_of_many_classes_are_numbers_with_commas(tmp_path):
    with write_prepared(tmp_path / "arrays", columns=("path",)) as writer:
        labels = np.array([[0, 1, 1], [0, 0, 0]], np.uint8)
        writer.write_labels("train", labels, [("abc", 'a "quoted" name'), ("def", "b")])
        writer.describe({})
    text = (tmp_path / "arrays" / "manifest.tsv").read_text()
    quoted = '0\ttrain\t1,2\tabc\t"a ""quoted"" name"\n'
    assert text == f"index\tsplit\tlabel\tsha256\tpath\n{quoted}1\ttrain\t\tdef\tb\n"


def test_tables_beside_the_data_are_not_hashed(tmp_path):
    with write_prepared(tmp_path / "arrays") as writer:
        writer.write_table("exclusions.tsv", ("path", "reason"), [("a.png", "empty")])
        writer.describe({"form": "png", "sha256": {}, "quality": 90})
    assert (tmp_path / "arrays" / "exclusions.tsv").read_text() == "path\treason\na.png\tempty\n"
    description = read_description(tmp_path / "arrays")
    assert list(description) == ["form", "sha256", "quality"] and list(description["sha256"]) == ["manifest.tsv"]


@pytest.mark.parametrize("count", [2, 4])
def test_images_that_do_not_fill_their_array_are_refused(tmp_path, count):
    images = [bytes(12)] * count
    with (
        pytest.raises(
            ValueError, match=rf"train images have {12 * count} bytes, not the 36 of the shape \(3, 2, 2, 3\)"
        ),
        write_prepared(tmp_path / "arrays") as writer,
    ):
        writer.write_images("train", (3, 2, 2, 3), images)
    assert list(tmp_path.iterdir()) == []


def test_labels_without_an_image_are_refused(tmp_path):
    with pytest.raises(ValueError, match="shorter"), write_prepared(tmp_path / "arrays") as writer:
        writer.write_labels("train", np.arange(3), [("abc",), ("def",)])


def test_a_writer_that_fails_leaves_the_older_folder(tmp_path):
    write_data(tmp_path / "arrays", make_data(seed=1))
    before = {path.name: path.read_bytes() for path in (tmp_path / "arrays").iterdir()}
    with pytest.raises(RuntimeError), write_prepared(tmp_path / "arrays") as writer:
        writer.write_images("train", (1, 2, 2, 1), [bytes(4)])
        raise RuntimeError
    assert {path.name: path.read_bytes() for path in (tmp_path / "arrays").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["arrays"]


def test_another_data_set_replaces_all_of_the_older_one(tmp_path):
    write_data(tmp_path / "arrays", make_data(seed=1))
    (tmp_path / "arrays" / "old.npy").touch()
    (tmp_path / ".arrays.abcd1234").mkdir()
    write_data(tmp_path / "arrays", make_data(seed=2))
    assert np.array_equal(open_data(tmp_path / "arrays").train_images, make_data(seed=2).train_images)
    assert not (tmp_path / "arrays" / "old.npy").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["arrays"], "the folder of a killed writer is removed"


def test_the_description_is_valid_json(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"), write_prepared(tmp_path / "arrays") as writer:
        writer.describe({"channel_mean": [float("nan")]})
    with write_prepared(tmp_path / "arrays") as writer:
        writer.describe({"channel_mean": [np.float64(1.5)]})
    assert json.loads((tmp_path / "arrays" / "dataset.json").read_text())["channel_mean"] == [1.5]
