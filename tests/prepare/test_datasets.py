"""Each data set has its own layout, labels and split."""

import gzip
import tarfile

import numpy as np
import pytest

from helpers.sample_data import needs
from howmanygpus.measure.input.prepared import open_data
from howmanygpus.prepare.arrays import prepare_arrays
from howmanygpus.prepare.listing import describe_dataset, read_task, resolve_acquisition
from howmanygpus.prepare.merging import merge_shards
from howmanygpus.prepare.shards import prepare_shard
from howmanygpus.prepare.sources import OptionError, chestxray14, image_csv, patterns
from pictures import SHARED_DATA, encode, smooth

HEADER = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]"
)
"""The header of the NIH's table, with commas inside the names of two columns."""


@pytest.fixture
def xrays(tmp_path):
    """Write ten patients with two images each. Patient p has finding p; the last four have no finding."""
    folder = tmp_path / "xrays"
    (folder / "images").mkdir(parents=True)
    rows = [HEADER]
    for patient in range(1, 11):
        text = chestxray14.FINDINGS[patient] if patient < 7 else "No Finding"
        for number in range(2):
            name = f"{patient:08d}_{number:03d}.png"
            rows.append(f"{name},{text},0,{patient},50,F,PA,1024,1024,0.1,0.1")
            (folder / "images" / name).write_bytes(encode(smooth(seed=patient)))
    (folder / "Data_Entry_2017_v2020.csv").write_text("\n".join(rows) + "\n")
    return folder


def listed(source, **options):
    return [(entry.path, entry.split, entry.label) for entry in read_task(source, options).listing.entries]


def test_a_listing_of_archives_equals_a_listing_of_the_folder(tmp_path):
    for path in ("train/dog/b.png", "train/cat/2.png", "train/cat/10.png", "test/dog/1.png", "train/cat/.hidden"):
        (tmp_path / "set" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / path).touch()
    listing = tmp_path / "listing.txt"
    names = [f"./{path.relative_to(tmp_path)}{'/' * path.is_dir()}" for path in (tmp_path / "set").rglob("*")]
    listing.write_text("\n".join(names) + "\n./set/readme.txt\n")
    archive = {"url": "https://images.example/pets.zip", "sha256": "0a" * 32, "num_bytes": 1000}
    options = {"downloads": [archive], "listing": str(listing), "train": "set/train", "test": "set/test"}
    scanned = read_task("image_folder", {"folder": str(tmp_path), "train": "set/train", "test": "set/test"}).listing
    task = read_task("image_folder", {**options, "size": [8, 8]}, "results/raw/pets")
    assert task.listing.entries == scanned.entries and len(scanned.entries) == 4
    assert task.listing.classes == scanned.classes and str(task.listing.folder) == "results/raw/pets"
    with pytest.raises(OptionError, match="size: None is not known before the images are there"):
        describe_dataset("image_folder", options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"listing": None}, r"listing: None is not a file here, .* tar --list --file ARCHIVE > LISTING writes it"),
        ({"listing": "nowhere"}, "listing: 'nowhere' is not a file here"),
        ({"downloads": None, "folder": "."}, "is given together with a folder; leave it out"),
        ({"train": "tree"}, "train: 'tree' is not a folder in .*listing.txt; give the path of the split"),
        ({"test": "flat"}, "listing: .* has flat/1.png, not flat/class/file"),
        ({"test": "other"}, "test: 'other' has a class emu that train does not have"),
    ],
)
def test_a_wrong_listing_is_refused(tmp_path, changes, message):
    listing = tmp_path / "listing.txt"
    listing.write_text("train/cat/1.png\ntest/cat/1.png\nflat/1.png\nother/emu/1.png\n")
    archive = {"url": "https://images.example/pets.zip", "sha256": "0a" * 32, "num_bytes": 1000}
    options = {"downloads": [archive], "listing": str(listing), "size": [8, 8]} | changes
    with pytest.raises(OptionError, match=message):
        listed(
            "image_folder", **{name: value for name, value in options.items() if value is not None or name == "listing"}
        )


def test_archives_of_xrays_are_fetched_where_none_are_at_hand(xrays):
    options = {"folder": str(xrays), "downloads": "nih"}
    assert resolve_acquisition("chestxray14", options) is None, "its images are there"
    (xrays / "images").rename(xrays.parent / "elsewhere")
    assert resolve_acquisition("chestxray14", {"folder": str(xrays)}) is None
    downloads = resolve_acquisition("chestxray14", options).downloads
    assert len({download.url for download in downloads}) == len({download.checksum for download in downloads}) == 12
    entries = read_task("chestxray14", options, "results/raw/xrays").listing.entries
    assert len(entries) == 18 and entries[0].path == "images/00000001_000.png"
    with pytest.raises(OptionError, match="downloads: 'kaggle' is not a list of archives"):
        resolve_acquisition("chestxray14", options | {"downloads": "kaggle"})
    (xrays / "images_001.tar.gz").touch()
    assert resolve_acquisition("chestxray14", options).archives == (xrays / "images_001.tar.gz",)


def test_patients_are_split_in_their_order_and_never_torn_apart(xrays):
    entries = listed("chestxray14", folder=str(xrays))
    train = {path for path, split, _ in entries if split == "train"}
    test = {path for path, split, _ in entries if split == "test"}
    assert train == {f"images/{patient:08d}_{number:03d}.png" for patient in range(1, 8) for number in (0, 1)}
    assert test == {f"images/{patient:08d}_{number:03d}.png" for patient in (9, 10) for number in (0, 1)}
    validation = listed("chestxray14", folder=str(xrays), evaluate_on="validation")
    assert {path for path, split, _ in validation if split == "test"} == {
        f"images/00000008_{n:03d}.png" for n in (0, 1)
    }


def test_the_protocol_of_2018_has_the_published_numbers_of_images(tmp_path):
    table = needs(SHARED_DATA / "xray" / "Data_Entry_2017_v2020.csv.gz")
    (tmp_path / table.name).symlink_to(table)
    counts = []
    for evaluate_on in ("validation", "test"):
        described = describe_dataset("chestxray14", {"folder": str(tmp_path), "evaluate_on": evaluate_on})
        counts.append((described.num_train, described.num_test))
    assert counts == [(87_306, 7_616), (87_306, 17_198)]
    assert (described.num_classes, described.image_shape, described.multi_label) == (14, (264, 264, 1), True)


def test_the_lists_of_the_nih_split_too(xrays):
    with pytest.raises(OptionError, match=r"split: 'nih' needs .*train_val_list.txt; fetch the NIH's list"):
        listed("chestxray14", folder=str(xrays), split="nih")
    (xrays / "train_val_list.txt").write_text("00000003_000.png\n00000001_001.png\n")
    (xrays / "test_list.txt").write_text("00000002_000.png\n")
    entries = listed("chestxray14", folder=str(xrays), split="nih")
    assert [(path[-16:], split) for path, split, _ in entries] == [
        *(("00000001_001.png", "train"), ("00000002_000.png", "test"), ("00000003_000.png", "train")),
    ]


def test_one_finding_is_a_single_label(xrays):
    described = describe_dataset("chestxray14", {"folder": str(xrays), "finding": "Edema"})
    assert (described.num_classes, described.multi_label) == (2, False)
    labels = [
        label for _, split, label in listed("chestxray14", folder=str(xrays), finding="Edema") if split == "train"
    ]
    assert labels == [0, 0, 0, 0, 1, 1, *[0] * 8], "finding 3 is patient 3's"


def test_labels_of_many_findings_are_prepared_as_columns(xrays, tmp_path):
    task = read_task("chestxray14", {"folder": str(xrays), "size": [16, 16]})
    files = [tmp_path / "0.pixels"], [tmp_path / "0.tsv"]
    prepare_shard(task, 0, files[0][0], files[1][0])
    merge_shards(task, *files, tmp_path / "arrays")
    data = open_data(tmp_path / "arrays")
    assert data.train_labels.shape == (14, 14) and data.train_labels.dtype == np.uint8
    assert [row.nonzero()[0].tolist() for row in data.train_labels] == [[p] for p in range(1, 7) for _ in (0, 1)] + [
        []
    ] * 2


def test_real_xrays_are_prepared_rgba_and_gray_alike(tmp_path):
    images = needs(SHARED_DATA / "xray" / "images")
    (tmp_path / "nih").mkdir()
    (tmp_path / "nih" / "images").symlink_to(images)
    (tmp_path / "nih" / "Data_Entry_2017_sample.csv").symlink_to(images.parent / "Data_Entry_2017_sample.csv")
    task = read_task("chestxray14", {"folder": str(tmp_path / "nih"), "size": [32, 32], "evaluate_on": "validation"})
    prepare_shard(task, 0, tmp_path / "0.pixels", tmp_path / "0.tsv")
    merge_shards(task, [tmp_path / "0.pixels"], [tmp_path / "0.tsv"], tmp_path / "arrays")
    data = open_data(tmp_path / "arrays")
    assert len(data.train_images) == task.description.num_train and 20 < data.train_images.mean() < 235
    assert (tmp_path / "arrays" / "exclusions.tsv").read_text().count("\n") == 1


def test_archives_in_the_folder_are_to_be_extracted(xrays):
    assert resolve_acquisition("chestxray14", {"folder": str(xrays), "size": [8, 8]}) is None
    with tarfile.open(xrays / "images_001.tar.gz", "w:gz") as tar:
        tar.add(xrays / "images", "images")
    (xrays / "images").rename(xrays.parent / "elsewhere")
    acquisition = resolve_acquisition("chestxray14", {"folder": str(xrays)})
    assert acquisition.archives == (xrays / "images_001.tar.gz",)
    task = read_task("chestxray14", {"folder": str(xrays)}, "results/raw/xrays")
    assert str(task.listing.folder) == "results/raw/xrays" and task.listing.entries[0].path == "images/00000001_000.png"
    before = task.fingerprint_shard(0)
    assert before == read_task("chestxray14", {"folder": str(xrays)}, "results/raw/xrays").fingerprint_shard(0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"folder": "nowhere"}, "folder: 'nowhere' is not a folder here; fetch the NIH's images"),
        ({"split": "random"}, "split: 'random' is not known here; choose from patients, nih"),
        (
            {"split": "nih", "evaluate_on": "validation"},
            "evaluate_on: 'validation' is not known here; choose from test",
        ),
        ({"finding": "Cold"}, "finding: 'Cold' is no label of this data set; choose from Atelectasis"),
    ],
)
def test_wrong_options_of_the_xrays_are_refused(xrays, changes, message):
    with pytest.raises(OptionError, match=message):
        listed("chestxray14", **{"folder": str(xrays), **changes})


def test_a_table_of_labels_names_images_anywhere_in_the_folder(tmp_path):
    table = tmp_path / "labels.csv.gz"
    rows = ["name,what,part,note", "a/1.png,dog;cat,train,x", "2.png,,test,x", "b/3.png,dog,val,x", "4.png,emu,train,x"]
    with gzip.open(table, "wt") as file:
        file.write("\n".join(rows))
    (tmp_path / "4.png").touch()
    options = {"folder": str(tmp_path), "table": str(table), "path_column": "name", "label_column": "what"}
    options |= {"split_column": "part", "separator": ";"}
    assert listed("image_csv", **options) == [
        *(("a/1.png", "train", (0, 1)), ("2.png", "test", ()), ("4.png", "train", (2,))),
    ]
    assert read_task("image_csv", options).listing.classes == ("cat", "dog", "emu")
    assert [label for *_, label in listed("image_csv", finding="dog", **options)] == [1, 0, 0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("../x.png,dog,train", "names ../x.png, outside the folder"),
        ("/etc/x.png,dog,train", "names /etc/x.png, outside the folder"),
        ("a.png,dog,train\na.png,cat,test", "names a.png twice"),
        ("a.png,dog", "has too few values in line 2"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path, row, message):
    (tmp_path / "labels.csv").write_text(f"path,labels,split\n{row}\n")
    with pytest.raises(OptionError, match=message):
        image_csv.list_images(str(tmp_path), table=str(tmp_path / "labels.csv"), label_column="labels", separator="|")
    with pytest.raises(OptionError, match=r"label_column: 'tags' is no column of .*; there are path, labels, split"):
        image_csv.list_images(str(tmp_path), table=str(tmp_path / "labels.csv"), label_column="tags")


def test_patterns_can_be_told_apart_by_their_direction():
    """The images of a class have a random phase, so its mean says nothing; the spectrum's largest peak does."""
    arrays = patterns.load([16, 16, 3], num_classes=4, num_train=400, num_test=80)
    assert (arrays.train_images.shape, arrays.train_images.dtype) == ((400, 16, 16, 3), np.uint8)
    assert set(arrays.train_labels) == set(arrays.test_labels) == set(range(4))
    spectra = np.abs(np.fft.rfft2(arrays.train_images.mean(axis=3) - 127.5)).reshape(400, -1)
    means = np.array([spectra[arrays.train_labels == label].mean(axis=0) for label in range(4)])
    test = np.abs(np.fft.rfft2(arrays.test_images.mean(axis=3) - 127.5)).reshape(80, -1)
    nearest = np.argmin(((test[:, None] - means) ** 2).sum(axis=2), axis=1)
    assert (nearest == arrays.test_labels).mean() > 0.95
    again = patterns.load([16, 16, 3], num_classes=4, num_train=400, num_test=80)
    assert np.array_equal(again.train_images, arrays.train_images)


def test_patterns_of_several_labels_are_prepared_and_show_each_label(tmp_path):
    options = {"image_shape": [16, 16, 1], "num_classes": 4, "num_train": 400, "num_test": 40, "multi_label": True}
    prepare_arrays("patterns", options, "", tmp_path / "arrays")
    data = open_data(tmp_path / "arrays")
    assert data.multi_label and data.train_labels.shape == (400, 4)
    assert 0.2 < data.train_labels.mean() < 0.4, "any number of labels, most often one or two"
    spectra = np.abs(np.fft.fft2(data.train_images[..., 0].astype(float)))
    vertical = spectra[:, 0, 3]
    has = data.train_labels[:, 0] == 1
    assert vertical[has].mean() > 3 * vertical[~has].mean(), "the stripes of label 0 are in images that have it"
