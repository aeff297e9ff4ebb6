"""Names look the same to a person and to the workflow, and what a system left in a folder is no data."""

import os
import unicodedata

import pytest

from howmanygpus.prepare.images.headers import read_file
from howmanygpus.prepare.listing import describe_dataset, read_task, read_task_once
from howmanygpus.prepare.sources import OptionError
from pictures import encode, smooth

NFC = "Größe é"
NFD = unicodedata.normalize("NFD", NFC)
SPLIT = {"split": {"test": 0.25}, "channels": 1}


@pytest.fixture(autouse=True)
def forget():
    read_task_once.cache_clear()


def save(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(smooth(seed=len(str(path)))))


def make_classes(root, classes=("a", "b"), name="{}.png", count=4):
    for label in classes:
        for index in range(count):
            save(root / label / name.format(index))
    return root


def describe(root, **options):
    return describe_dataset("image_folder", {"folder": str(root), **SPLIT, **options})


def describe_table(root, rows, **options):
    (root / "labels.csv").write_text("\n".join(["path,label", *rows]) + "\n", encoding="utf-8")
    table = {"folder": str(root), "table": str(root / "labels.csv"), **SPLIT, **options}
    return read_task("image_csv", table), describe_dataset("image_csv", table)


@pytest.mark.parametrize(
    "name",
    [
        "Screenshot {}\u202fAM.png",
        "v\u00a0{}.png",
        "正常\u3000{}.png",
        "scan\u200e{}.png",
        "👩\u200d🔬 {}.png",
        "\ue000{}.png",
    ],
)
def test_a_printable_name_is_accepted(tmp_path, name):
    assert describe(make_classes(tmp_path, name=name)).num_train == 6
    rows = [f"{label}/{name.format(index)},{label}" for label in "ab" for index in range(4)]
    task, described = describe_table(tmp_path, rows)
    assert described.num_train == 6
    assert all(read_file(tmp_path / entry.path) for entry in task.listing.entries)


@pytest.mark.parametrize(
    "name", ["a\tb{}.png", "a\nb{}.png", "a\u2028b{}.png", "a\x85b{}.png", os.fsdecode(b"\xe9{}.png")]
)
def test_a_name_that_no_table_can_hold_is_refused(tmp_path, name):
    with pytest.raises(OptionError, match=r"unprintable name a/.*; rename it"):
        describe(make_classes(tmp_path, name=name))


JUNK = [
    "a/@eaDir/0.png/SYNOPHOTO_THUMB_SM.jpg",
    "@eaDir/cover.jpg/SYNOPHOTO_THUMB_XL.jpg",
    "a/0.png@SynoEAStream",
    "#recycle/1.png",
    "$RECYCLE.BIN/1.png",
    "System Volume Information/1.png",
    "lost+found/1.png",
    "@Recycle/1.png",
    "__MACOSX/a/._0.png",
    "a/._0.png",
    "a/.DS_Store",
    "a/Thumbs.db",
    "b/desktop.ini",
    ".ipynb_checkpoints/1.png",
    "a/.ipynb_checkpoints/1-checkpoint.png",
    ".Trash-1000/files/1.png",
    "b/.thumbnails/1.png",
    ".@__thumb/1.png",
]


@pytest.mark.parametrize("junk", JUNK)
def test_system_files_are_neither_class_nor_image_and_are_reported(tmp_path, junk):
    save(make_classes(tmp_path) / junk)
    described = describe(tmp_path)
    assert (described.num_classes, described.num_train + described.num_test) == (2, 8)
    name = next(part for part in junk.split("/") if part not in ("a", "b"))
    told = "._*" if name.startswith("._") else name
    assert any(told in remark and "left out" in remark for remark in described.remarks)


def test_system_files_beside_the_splits_are_left_out(tmp_path):
    for split in ("train", "test"):
        save(make_classes(tmp_path / split) / "@eaDir" / "0.png" / "SYNOPHOTO_THUMB_SM.jpg")
    described = describe_dataset("image_folder", {"folder": str(tmp_path), "channels": 1})
    assert (described.num_classes, described.num_train, described.num_test) == (2, 8, 8)
    assert any("@eaDir (2)" in remark for remark in described.remarks)


def test_two_folders_with_the_same_text_are_refused(tmp_path):
    with pytest.raises(OptionError, match="NFC and NFD"):
        describe(make_classes(tmp_path, classes=(NFC, NFD, "b")))


def test_a_class_is_the_same_in_both_splits_however_its_letters_are_composed(tmp_path):
    make_classes(tmp_path / "train", classes=(NFC, "b"))
    make_classes(tmp_path / "test", classes=(NFD, "b"))
    options = {"folder": str(tmp_path), "channels": 1}
    assert describe_dataset("image_folder", options).num_classes == 2
    assert all(read_file(tmp_path / entry.path) for entry in read_task("image_folder", options).listing.entries)


@pytest.mark.parametrize("other", ["cat ", "cat\u00a0", " cat", "c\u200bat"])
def test_classes_that_look_the_same_are_refused(tmp_path, other):
    with pytest.raises(OptionError, match=r"look the same.*'cat'.*; give them one name"):
        describe(make_classes(tmp_path, classes=("cat", other)))


@pytest.mark.parametrize("other", ["two words", "two\u00a0words", "two  words", "Two words"])
def test_a_class_of_one_split_names_the_one_it_looks_like(tmp_path, other):
    make_classes(tmp_path / "train", classes=("two\u3000words", "b"))
    make_classes(tmp_path / "test", classes=(other, "b"))
    with pytest.raises(OptionError, match=r"'two\\u3000words' looks like"):
        describe_dataset("image_folder", {"folder": str(tmp_path), "channels": 1})


def test_the_labels_of_a_table_are_the_same_however_their_letters_are_composed(tmp_path):
    make_classes(tmp_path)
    rows = [f"{folder}/{index}.png,{(NFC, NFD, 'x', 'x')[index]}" for folder in "ab" for index in range(4)]
    assert describe_table(tmp_path, rows)[1].num_classes == 2


@pytest.mark.parametrize(("written", "stored"), [(NFC, NFD), (NFD, NFC), (NFD, NFD)])
def test_a_table_finds_a_file_however_its_letters_are_composed(tmp_path, written, stored):
    make_classes(tmp_path, classes=(f"a {stored}", "b"), name=f"{stored} {{}}.png")
    rows = [f"{folder}/{written} {index}.png,{folder[0]}" for folder in (f"a {written}", "b") for index in range(4)]
    task, described = describe_table(tmp_path, rows)
    assert described.num_train == 6
    assert all(read_file(tmp_path / entry.path) for entry in task.listing.entries)


@pytest.mark.parametrize(
    ("written", "stored"),
    [("A{}.png", "a{}.png"), ("a{}.png", "a{}.PNG"), ("x a{}.png", "x\u00a0a{}.png"), ("a{}.png", "a{}.png ")],
)
def test_a_file_name_in_another_unicode_form_is_refused(tmp_path, written, stored):
    make_classes(tmp_path, name=stored)
    rows = [f"{label}/{written.format(index)},{label}" for label in "ab" for index in range(4)]
    with pytest.raises(OptionError, match=r"table.*8 files that are not.*looks the same; .*rename") as error:
        describe_table(tmp_path, rows)
    assert ascii(f"a/{stored.format(0)}") in str(error.value)


def test_a_missing_file_of_a_table_stays_missing(tmp_path):
    make_classes(tmp_path)
    rows = [f"{label}/{index}.png,{label}" for label in "ab" for index in range(6)]
    described = describe_table(tmp_path, rows)[1]
    assert described.num_train + described.num_test == 12


def test_circular_links_do_not_repeat_images(tmp_path):
    make_classes(tmp_path)
    (tmp_path / "a" / "loop.png").symlink_to(tmp_path / "a" / "loop.png")
    assert describe(tmp_path).num_train == 7
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    with pytest.raises(OptionError, match=r"a/again.*; remove the link"):
        describe(tmp_path, shard_images=7)


@pytest.mark.parametrize(
    ("option", "value", "remedy"),
    [
        ("separator", "", "between two labels"),
        ("nothing", False, 'nothing: "no"'),
        ("nothing", None, 'nothing: "null"'),
        ("finding", 1, 'finding: "1"'),
        ("unknown", -1, 'unknown: "-1"'),
        ("separator", True, 'separator: "yes"'),
        ("nothing", ["no", "none"], "write one text"),
        ("label_column", 2.5, 'label_column: "2.5"'),
        ("train", False, 'train: "no"'),
    ],
)
def test_an_option_that_yaml_does_not_read_as_text_is_refused(tmp_path, option, value, remedy):
    (tmp_path / "labels.csv").write_text("path,label\na.png,x\nb.png,no\n")
    (tmp_path / "a.png").touch()
    given = {"folder": str(tmp_path), "table": str(tmp_path / "labels.csv"), "separator": "|", **SPLIT, option: value}
    with pytest.raises(OptionError) as error:
        describe_dataset("image_csv", given)
    assert error.value.option == option and error.value.value == value and remedy in error.value.remedy


def test_the_folder_of_arrays_is_text(tmp_path):
    with pytest.raises(OptionError, match=r'folder: 2018 is not text; .*"2018"'):
        describe_dataset("cifar10", {"folder": 2018})
