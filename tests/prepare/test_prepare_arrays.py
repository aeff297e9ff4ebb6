"""Test arrays of data sets that do not consist of image files, and random arrays with the shape of any data set."""

import hashlib

import numpy as np
import pytest

from helpers.cifar import write_small
from howmanygpus.measure.input.description import read_description, verify_hashes
from howmanygpus.measure.input.prepared import open_data
from howmanygpus.prepare.arrays import check_part, prepare_arrays, prepare_random
from howmanygpus.prepare.checks.remarks import read_remarks
from howmanygpus.prepare.sources import Arrays, Description, digits, synthetic
from howmanygpus.study.invalidation.contents import has_shape_of_arrays

NOISE = Description((5, 7, 3), 4, 23, 6)


def test_digits_become_arrays_with_a_manifest(tmp_path):
    prepare_arrays("digits", {}, "", tmp_path / "arrays")
    data, loaded = open_data(tmp_path / "arrays"), digits.load()
    verify_hashes(tmp_path / "arrays", read_description(tmp_path / "arrays")["sha256"])
    assert np.array_equal(data.train_images, loaded.train_images) and np.array_equal(
        data.test_labels, loaded.test_labels
    )
    assert data.channel_mean == pytest.approx((loaded.train_images.mean(),))
    assert data.channel_std == pytest.approx((loaded.train_images.std(),))
    rows = [line.split("\t") for line in (tmp_path / "arrays" / "manifest.tsv").read_text().splitlines()]
    assert len(rows) == 1 + 1437 + 360
    assert rows[1] == ["0", "train", str(loaded.train_labels[0]), hashlib.sha256(loaded.train_images[0]).hexdigest()]


def test_random_arrays_are_written_in_blocks_and_are_always_the_same(tmp_path, monkeypatch):
    options = {"image_shape": NOISE.image_shape, "num_classes": 4, "num_train": 23, "num_test": 6}
    whole = synthetic.load(**options)
    monkeypatch.setattr(synthetic, "BLOCK_BYTES", 8 * 5 * 7 * 3)
    assert max(map(len, synthetic.draw_images(NOISE, "train"))) == 8
    prepare_random("synthetic", options, tmp_path / "synthetic")
    data = open_data(tmp_path / "synthetic")
    assert np.array_equal(data.train_images, whole.train_images) and np.array_equal(data.test_images, whole.test_images)
    assert np.array_equal(data.train_labels, whole.train_labels) and set(data.train_labels.tolist()) == {0, 1, 2, 3}
    assert not np.array_equal(data.train_images[:6], data.test_images)


def test_test_images_that_are_training_images_are_refused_or_told(tmp_path):
    """As for image files. The folder of CIFAR-10 has the batches that a user put there."""
    folder, test = tmp_path / "cifar", tmp_path / "cifar" / "test_batch.bin"
    write_small(folder)
    second, own = ((folder / name).read_bytes() for name in ("data_batch_2.bin", "test_batch.bin"))
    row = len(second) // 3
    test.write_bytes(second)
    with pytest.raises(
        ValueError, match=r"3 of 3 test images have the pixels of a training image \(test image 0 = train"
    ):
        prepare_arrays("cifar10", {"folder": str(folder)}, "", tmp_path / "arrays")
    assert not (tmp_path / "arrays").exists()
    test.write_bytes(own + second[row:])
    of_another_class = b"\x02" + second[1:row]
    (folder / "data_batch_1.bin").write_bytes(second[:row] + of_another_class + second[row : 2 * row])
    prepare_arrays("cifar10", {"folder": str(folder)}, "", tmp_path / "arrays")
    leak, contradiction = read_remarks(tmp_path / "arrays")
    pairs = "test image 3 = train image 2, test image 4 = train image 5"
    assert leak.startswith(f"2 of 5 test images have the pixels of a training image ({pairs}), so that the quality is")
    assert contradiction == (
        "images with the same pixels in several classes: 1 (train image 0 = train image 1); correct their classes"
    )


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((23, 5, 7, 1), np.uint8), np.zeros(23), r"train images are uint8 \(23, 5, 7, 1\), not uint8 \(23, 5"),
        (np.zeros((23, 5, 7, 3), np.float32), np.zeros(23), "train images are float32"),
        (np.zeros((23, 5, 7, 3), np.uint8), np.full(23, 4), "train labels are not 23 numbers below 4"),
        (np.zeros((23, 5, 7, 3), np.uint8), np.zeros(22), "train labels are not 23 numbers below 4"),
    ],
)
def test_a_source_is_refused_if_its_arrays_contradict_its_description(images, labels, message):
    arrays = Arrays(images, labels, images, labels)
    with pytest.raises(ValueError, match=message):
        check_part("noise", "train", arrays.train_images, arrays.train_labels, NOISE)


@pytest.mark.parametrize(
    "change", [{"multi_label": True}, {"num_classes": 5}, {"num_test": 7}, {"image_shape": [5, 7, 1]}]
)
def test_random_arrays_have_the_shape_of_a_data_set_with_its_kind_of_labels(tmp_path, change):
    options = {"image_shape": [5, 7, 3], "num_classes": 4, "num_train": 23, "num_test": 6}
    prepare_random("patterns", options, tmp_path)
    assert has_shape_of_arrays("patterns", options, tmp_path)
    assert not has_shape_of_arrays("patterns", options | change, tmp_path)
