"""Images that did not come split are split by class and by group, and a folder that is no data set says what it is."""

from collections import Counter

import pytest

from helpers.messages import says
from howmanygpus.prepare.labels.splits import split_listing
from howmanygpus.prepare.listing import describe_dataset, read_task, read_task_once
from howmanygpus.prepare.sources import Entry, Listing, OptionError

COUNTS = {"normal": 400, "pneumonia": 100}


@pytest.fixture(autouse=True)
def forget():
    read_task_once.cache_clear()


def touch(folder, *paths):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    return folder


@pytest.fixture
def xrays(tmp_path):
    """800 empty files in two folders of classes; every patient has four, in one class or in both."""
    names = [f"{name}/p{index // 4:03d}_{index % 4}.png" for name, count in COUNTS.items() for index in range(count)]
    return touch(tmp_path / "xrays", *names)


def listing_of(folder, split, **options):
    return read_task("image_folder", {"folder": str(folder), "size": [8, 8], "split": split, **options}).listing


def splits(listing) -> dict[str, str]:
    return {entry.path: entry.split for entry in listing.entries}


def test_each_class_is_split_in_the_same_proportion_and_always_in_the_same_way(xrays):
    listing = listing_of(xrays, {"test": 0.2})
    assert listing.classes == ("normal", "pneumonia")
    counts = Counter((entry.split, entry.label) for entry in listing.entries)
    assert counts == {("train", 0): 320, ("test", 0): 80, ("train", 1): 80, ("test", 1): 20}
    read_task_once.cache_clear()
    again = listing_of(xrays, {"test": 0.2, "by": "file", "seed": 1})
    assert splits(again) == splits(listing) and again.split == {"test": 0.2, "by": "file", "seed": 1}
    other = splits(listing_of(xrays, {"test": 0.2, "seed": 2}))
    assert sum(other[path] != split for path, split in splits(listing).items()) > 50
    described = describe_dataset("image_folder", {"folder": str(xrays), "size": [8, 8], "split": {"test": 0.2}})
    assert (described.num_train, described.num_test, len(described.remarks)) == (400, 100, 1)


def test_names_that_may_have_patients_are_told(xrays, tmp_path):
    (remark,) = listing_of(xrays, {"test": 0.2}).remarks
    assert says(
        remark, "split", "500 of 500 files", "p000_ (8 files)", "patient", "split: {test: 0.2, by: '^([^_]+)_'}"
    )
    assert listing_of(xrays, {"test": 0.2, "by": "^([^_]+)_"}).remarks == ()
    one_prefix = touch(tmp_path / "plain", *(f"{name}/img_{index}.png" for name in "ab" for index in range(20)))
    own_names = touch(tmp_path / "own", *(f"{name}/{name}{index}_x.png" for name in "ab" for index in range(20)))
    assert listing_of(one_prefix, {"test": 0.2}).remarks == listing_of(own_names, {"test": 0.2}).remarks == ()


def test_an_added_image_moves_few_others(xrays):
    before = splits(listing_of(xrays, {"test": 0.2}))
    read_task_once.cache_clear()
    after = splits(listing_of(touch(xrays, "normal/new.png"), {"test": 0.2}))
    assert len(after) == 501 and sum(after[path] != split for path, split in before.items()) <= 1


def test_a_changed_split_is_merged_again_even_if_no_image_moves(xrays):
    options = {"folder": str(xrays), "size": [8, 8]}
    tasks = [read_task("image_folder", options | {"split": {"test": test}}) for test in (0.2, 0.2001)]
    assert tasks[0].listing.entries == tasks[1].listing.entries
    assert tasks[0].fingerprint_listing() != tasks[1].fingerprint_listing()
    assert tasks[0].fingerprint_shard(0) == tasks[1].fingerprint_shard(0)


def test_no_group_is_in_both_splits(xrays):
    listing = listing_of(xrays, {"test": 0.2, "by": "^(p[0-9]+)_"})
    groups = {split: {entry.group for entry in listing.entries if entry.split == split} for split in ("train", "test")}
    assert not groups["train"] & groups["test"] and len(groups["train"] | groups["test"]) == 100
    counts = Counter((entry.split, entry.label) for entry in listing.entries)
    assert counts["test", 0] == pytest.approx(80, abs=8) and counts["test", 1] == pytest.approx(20, abs=8)


def test_folders_below_the_class_belong_to_it_and_can_be_groups(tmp_path):
    touch(tmp_path, *(f"{name}/p{patient}/{index}.png" for name in "ab" for patient in range(10) for index in range(3)))
    listing = listing_of(tmp_path, {"test": 0.3, "by": "^([^/]+)/"})
    assert len(listing.entries) == 60
    for patient in range(10):
        assert len({split for path, split in splits(listing).items() if f"/p{patient}/" in path}) == 1
    assert Counter(splits(listing).values())["test"] == 18
    touch(tmp_path / "split", "train/a/x/1.png", "train/b/2.png", "test/a/y/z/3.png")
    paths = read_task("image_folder", {"folder": str(tmp_path / "split"), "size": [8, 8]}).listing.entries
    assert [entry.path for entry in paths] == ["train/a/x/1.png", "train/b/2.png", "test/a/y/z/3.png"]


def test_a_rare_class_is_in_both_splits():
    """The rarest class has two groups, which are large; one of them must be in each split."""
    rare = [Entry(f"rare{group}{index}", "", 1, f"g{group}") for group in range(2) for index in range(10)]
    common = [Entry(f"common{index}", "", 0, f"c{index // 5}") for index in range(200)]
    for seed in range(20):
        listing = split_listing(
            Listing(None, ("common", "rare"), rare + common), {"test": 0.1, "by": "(x)", "seed": seed}
        )
        assert Counter((entry.split, entry.label) for entry in listing.entries)["test", 1] == 10


def test_images_of_several_labels_are_split_by_each_label():
    labels = [(0,), (0, 1), (), (2,)]
    entries = [Entry(str(index), "", labels[index % 4]) for index in range(400)]
    divided = split_listing(Listing(None, ("a", "b", "c"), entries, True), {"test": 0.25}).entries
    test = Counter(entry.label for entry in divided if entry.split == "test")
    assert test[(0, 1)] == pytest.approx(25, abs=2) and test[()] == test[(2,)] == 25


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (0.2, r"split: 0.2 does not have the key test, .*; write \{test: 0.2\}"),
        ({"test": 0.2, "group": "x"}, "does not have the key test, and at most test, by, seed"),
        ({"seed": 1}, "does not have the key test"),
        ({"test": 20}, "has no fraction of the images as test; give a number between 0 and 1"),
        ({"test": 0.2, "seed": "one"}, "has a seed that is no whole number"),
        ({"test": 0.2, "by": "patient"}, "split: 'patient' has 0 groups in parentheses, not one; write `by: file`"),
        ({"test": 0.2, "by": "(p"}, r"split: '\(p' is no regular expression \(missing \)"),
        ({"test": 0.2, "by": "^p([0-4]+)_"}, r"finds no group in 340 of 500 files: p005_0.png, .* and 337 more"),
        ({"test": 0.2, "by": "^(p)"}, "puts no image of the class normal to test: it is in 1 group; add images"),
    ],
)
def test_a_wrong_split_is_refused(xrays, split, message):
    with pytest.raises(OptionError, match=message):
        listing_of(xrays, split)


def test_a_pattern_without_groups_is_reported(xrays):
    remarks = listing_of(xrays, {"test": 0.2, "by": "(.+)"}).remarks
    assert remarks == ()  # a patient's name is in both classes
    read_task_once.cache_clear()
    (xrays / "pneumonia").rename(xrays.parent / "gone")
    touch(xrays, "other/x.png", "other/y.png")
    remarks = listing_of(xrays, {"test": 0.2, "by": "(.+)"}).remarks
    assert remarks == ("split: '(.+)' finds a group of its own for each of 402 files, as `by: file` does",)


FOUND = r"2 folders \(normal with 400 files, pneumonia with 100 files\)"


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        ([], {}, rf"train: 'train' is not a folder in .*, which has {FOUND}; split these classes by `split: "),
        (["a.txt"], {}, rf"which has {FOUND} and 1 file; split"),
        (["Train/a/1.png"], {}, "train: 'train' is not a folder in .*; give `train: Train`"),
        (["train/a/1.png", "val/a/2.png"], {}, "test: 'test' is not a folder in .*; give `test: val`"),
        (
            ["train/a/1.png"],
            {},
            r"test: 'test' .*; split the training images by `train: train` and `split: \{test: 0.2",
        ),
        (
            ["train/1.png", "test/2.png"],
            {},
            "train: 'train' has 1 file in .*; name the classes by folders, or by a tab",
        ),
        ([], {"train": "normal", "test": "./normal"}, "test: './normal' is the folder of the training images too; nam"),
        ([], {"split": {"test": 0.2}, "train": "x"}, rf"train: 'x' is not a folder in .*, which has {FOUND}; give the"),
        (
            [],
            {"split": {"test": 0.2}, "train": "normal"},
            "folder: .*normal' has 400 files; name the classes by folders",
        ),
        (["empty/"], {"split": {"test": 0.2}}, "has an empty class empty; add images or remove it"),
        (
            ["one/1.png"],
            {"split": {"test": 0.2}},
            "puts no image of the class one to test: it is in 1 file; add images",
        ),
        (["x/test/a/1.png"], {"split": {"test": 0.2}, "train": "x"}, "would take the folders test as classes; leave `"),
    ],
)
def test_a_folder_without_a_data_set_is_refused_with_its_contents(xrays, made, options, message):
    for path in made:
        (xrays / path).mkdir() if path.endswith("/") else touch(xrays, path)
    with pytest.raises(OptionError, match=message):
        describe_dataset("image_folder", {"folder": str(xrays), "size": [8, 8], **options})


def test_a_folder_below_home_is_written_in_full(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    with pytest.raises(OptionError, match="folder: '~/xrays' is not a folder here; write the path in full, /home/ada/"):
        listing_of("~/xrays", {"test": 0.2})


def test_one_split_is_split_and_a_class_may_be_called_train(tmp_path):
    touch(tmp_path, *(f"{place}/{index}.png" for place in ("train/bus", "train/train") for index in range(10)))
    listing = listing_of(tmp_path, {"test": 0.5}, train="train")
    assert listing.classes == ("bus", "train") and Counter(splits(listing).values()) == {"train": 10, "test": 10}


def test_archives_are_split_by_their_listing(tmp_path):
    names = [f"birds/{name}/{index}.jpg" for name in ("jay", "wren") for index in range(10)]
    (tmp_path / "birds.txt").write_text("\n".join(["birds/", *names]))
    archive = {"url": "https://images.example/birds.zip", "sha256": "0a" * 32, "num_bytes": 1000}
    options = {"downloads": [archive], "listing": str(tmp_path / "birds.txt"), "train": "birds", "size": [8, 8]}
    listing = read_task("image_folder", options | {"split": {"test": 0.2}}, "results/raw/birds").listing
    assert listing.classes == ("jay", "wren") and Counter(splits(listing).values()) == {"train": 16, "test": 4}
    (tmp_path / "here").mkdir()
    touch(tmp_path / "here", *names)
    assert listing_of(tmp_path / "here", {"test": 0.2}, train="birds").entries == listing.entries
