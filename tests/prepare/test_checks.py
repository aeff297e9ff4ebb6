"""Data that no run can be judged on are refused before training, and what is merely odd is told."""

import csv
import shutil

import pytest

from howmanygpus.measure.input.description import read_description
from howmanygpus.prepare.checks.remarks import read_remarks
from howmanygpus.prepare.listing import describe_dataset, read_task, read_task_once
from howmanygpus.prepare.merging import merge_shards
from howmanygpus.prepare.shards import prepare_shard
from howmanygpus.prepare.sources import OptionError
from pictures import encode, smooth, write_tree

COUNTS = {"train/cat": 5, "train/dog": 4, "test/cat": 2, "test/dog": 3}


@pytest.fixture
def tree(tmp_path):
    read_task_once.cache_clear()
    write_tree(tmp_path / "pets", COUNTS)
    return tmp_path / "pets"


def describe(tree, **options):
    read_task_once.cache_clear()
    return describe_dataset("image_folder", {"folder": str(tree), "size": [20, 28], "channels": 1, **options})


def prepare(tree, **options):
    """Prepare the images and return the folder of the arrays."""
    read_task_once.cache_clear()
    task = read_task("image_folder", {"folder": str(tree), "size": [20, 28], "channels": 1, **options})
    files = tree.parent / "0.pixels", tree.parent / "0.tsv"
    prepare_shard(task, 0, *files)
    merge_shards(task, [files[0]], [files[1]], tree.parent / "arrays")
    return tree.parent / "arrays"


def read_table(path) -> list[dict]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_sound_data_have_no_remarks(tree):
    assert describe(tree).remarks == () and read_remarks(prepare(tree)) == []
    assert not (tree.parent / "arrays" / "remarks.txt").exists()


def test_one_class_is_refused(tree):
    for split in ("train", "test"):
        shutil.rmtree(tree / split / "dog")
    with pytest.raises(OptionError, match="has only the class cat; training needs at least two"):
        describe(tree)


def test_an_empty_class_is_refused_in_training_and_told_in_test(tree):
    (tree / "test/dog").rename(tree / "dogs")
    (tree / "test/dog").mkdir()
    assert describe(tree).remarks == ("1 of 2 classes have no test image: dog",)
    (tree / "train/emu").mkdir()
    with pytest.raises(OptionError, match="has no training image of the class emu; add images of it, or remove the cl"):
        describe(tree)


def test_folders_and_images_left_out_are_told(tree):
    for place in ("val/cat/1.png", "train/loose.jpg", "train/notes.txt"):
        (tree / place).parent.mkdir(parents=True, exist_ok=True)
        (tree / place).touch()
    assert describe(tree).remarks == (
        f"1 folder of {tree} left out: val",
        f"1 image left out in {tree}/train, beside the folders of the classes",
    )


def test_test_images_that_are_training_images_are_refused(tree):
    with pytest.raises(OptionError, match=r"test: 'train' is the folder of the training images too"):
        describe(tree, test="train")
    shutil.rmtree(tree / "test")
    (tree / "test").symlink_to(tree / "train")
    with pytest.raises(
        ValueError, match=r"9 of 9 test images have the pixels of a training image \(test/cat/0000.png = t"
    ):
        prepare(tree)
    assert not (tree.parent / "arrays").exists()


def test_some_images_in_both_splits_are_told_and_stored(tree):
    shutil.copy(tree / "train/cat/0003.png", tree / "test/cat/0001.png")
    (leak,) = read_remarks(prepare(tree))
    assert leak == (
        "1 of 5 test images have the pixels of a training image (test/cat/0001.png = train/cat/0003.png), so that the "
        "quality is overestimated; remove them from one of the splits"
    )


def test_the_same_pixels_in_two_classes_are_told(tree):
    shutil.copy(tree / "train/cat/0003.png", tree / "train/dog/0001.png")
    (remark,) = read_remarks(prepare(tree))
    pair = "train/cat/0003.png = train/dog/0001.png"
    assert remark == f"images with the same pixels in several classes: 1 ({pair}); correct their classes"


@pytest.mark.parametrize("on_bad_file", ["fail", "skip"])
def test_one_odd_image_does_not_condemn_the_others(tree, on_bad_file):
    (tree / "train/cat/0000.png").write_bytes(encode(smooth(30, 30)))
    with pytest.raises(
        ValueError, match=r"13 of 14 images differ in size from train/cat/0000.png, .* \(30x30\). Set `si"
    ):
        prepare(tree, size=None, on_bad_file=on_bad_file)


def test_files_left_out_are_told_and_must_leave_every_class(tree):
    (tree / "train/dog/0000.png").write_bytes(b"<html>")
    remarks = read_remarks(prepare(tree, on_bad_file="skip"))
    assert remarks == ["files left out: 1 of 14 (1 unknown), namely train/dog/0000.png"]
    for path in (tree / "train/dog").iterdir():
        path.write_bytes(b"<html>")
    with pytest.raises(ValueError, match=r"has no training image of the class dog; .*\n4 files cannot be prepared"):
        prepare(tree, on_bad_file="skip")


def test_a_split_is_recorded(tree):
    split = {"test": 0.4, "by": "^([0-9]+)", "seed": 3}
    arrays = prepare(tree / "train", split=split)
    rows = read_table(arrays / "manifest.tsv")
    assert read_description(arrays)["split"] == split
    assert {row["group"] for row in rows} == {"0000", "0001", "0002", "0003", "0004"}
    assert all(row["group"] in row["path"] for row in rows)
    classes = read_table(arrays / "classes.tsv")
    assert [row["class"] for row in classes] == ["cat", "dog"]
    assert [int(row["num_train"]) + int(row["num_test"]) for row in classes] == [5, 4]
    arrays = prepare(tree / "train", split={"test": 0.4})
    assert list(read_table(arrays / "manifest.tsv")[0]) == [
        "index",
        "split",
        "label",
        "sha256",
        "path",
        "source_sha256",
    ]
