"""Image files are listed, prepared in shards, and merged into arrays."""

import csv
import hashlib
import resource
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

from howmanygpus.config.errors import ConfigError
from howmanygpus.measure.input.description import read_description, verify_hashes
from howmanygpus.measure.input.prepared import open_data
from howmanygpus.prepare.images.decoding import decode
from howmanygpus.prepare.images.resizing import resize
from howmanygpus.prepare.listing import describe_dataset, read_task, read_task_once
from howmanygpus.prepare.merging import merge_shards
from howmanygpus.prepare.shards import prepare_shard, read_records
from howmanygpus.prepare.sources import OptionError
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from pictures import encode, smooth, write_tree
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
COUNTS = {"train/cat": 5, "train/dog": 4, "test/cat": 2, "test/dog": 3}


@pytest.fixture
def tree(tmp_path):
    read_task_once.cache_clear()
    write_tree(tmp_path / "pets", COUNTS)
    return tmp_path / "pets"


def options_of(tree, **changes) -> dict:
    return {"folder": str(tree), "size": [20, 28], "channels": 1, **changes}


def prepare(task, folder):
    """Prepare all shards, merge them, and return the folder of the arrays."""
    (folder / "shards").mkdir(parents=True, exist_ok=True)
    files = [
        (folder / "shards" / f"{shard}.pixels", folder / "shards" / f"{shard}.tsv") for shard in range(task.num_shards)
    ]
    for shard, (images, records) in enumerate(files):
        prepare_shard(task, shard, images, records)
    merge_shards(task, *map(list, zip(*files, strict=True)), folder / "arrays")
    return folder / "arrays"


def read_table(path) -> list[dict]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_arrays_are_the_same_for_every_number_of_shards(tree, tmp_path):
    for shard_images in (100, 3):
        task = read_task("image_folder", options_of(tree, shard_images=shard_images))
        assert task.num_shards == (1 if shard_images == 100 else 8)
        arrays = prepare(task, tmp_path / str(shard_images))
        data = open_data(arrays)
        verify_hashes(arrays, read_description(arrays)["sha256"])
        assert data.train_labels.tolist() == [0] * 5 + [1] * 4 and data.train_labels.dtype == np.int32
        assert data.test_labels.tolist() == [0] * 2 + [1] * 3
        sources = [tree / "train/cat" / f"{index:04d}.png" for index in range(5)]
        for image, source in zip(data.train_images, sources, strict=False):
            assert np.array_equal(image, resize(decode(source.read_bytes(), 1), (20, 28)))
    assert (tmp_path / "100/arrays/manifest.tsv").read_bytes() == (tmp_path / "3/arrays/manifest.tsv").read_bytes()


def test_more_shards_than_files_may_be_open_are_merged(tree, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    task = read_task("image_folder", options_of(tree, shard_images=1))
    assert task.num_shards == 16
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 8, hard))
    try:
        arrays = prepare(task, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    verify_hashes(arrays, read_description(arrays)["sha256"])


def test_the_description_matches_the_arrays(tree, tmp_path):
    options = options_of(tree)
    described = describe_dataset("image_folder", options)
    assert (described.image_shape, described.num_classes) == ((20, 28, 1), 2)
    assert (described.num_train, described.num_test, described.multi_label) == (9, 5, False)
    arrays = prepare(read_task("image_folder", options), tmp_path / "out")
    data, description = open_data(arrays), read_description(arrays)
    assert data.image_shape == described.image_shape and len(data.train_images) == 9 and len(data.test_images) == 5
    pixels = np.asarray(data.train_images, np.float64)
    assert description["channel_mean"] == pytest.approx([pixels.mean()], abs=1e-9)
    assert description["channel_std"] == pytest.approx([pixels.std()], abs=1e-9)


def test_the_manifest_names_source_and_pixels_of_every_image(tree, tmp_path):
    arrays = prepare(read_task("image_folder", options_of(tree)), tmp_path / "out")
    rows, data = read_table(arrays / "manifest.tsv"), open_data(arrays)
    assert len(rows) == 14
    for row in rows:
        images, labels = (getattr(data, f"{row['split']}_{what}") for what in ("images", "labels"))
        assert row["sha256"] == hashlib.sha256(images[int(row["index"])]).hexdigest()
        assert row["source_sha256"] == hashlib.sha256((tree / row["path"]).read_bytes()).hexdigest()
        assert int(row["label"]) == labels[int(row["index"])] == ("cat", "dog").index(row["path"].split("/")[1])


def test_originals_are_never_touched(tree, tmp_path):
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tree.rglob("*.png")}
    prepare(read_task("image_folder", options_of(tree)), tmp_path / "out")
    assert before == {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tree.rglob("*") if path.is_file()}


def test_a_bad_file_fails_with_its_name_and_reason(tree, tmp_path):
    (tree / "train/cat/0002.png").write_bytes(b"<html>")
    (tree / "test/dog/0001.png").write_bytes((tree / "test/dog/0001.png").read_bytes()[:300])
    with pytest.raises(ValueError, match="2 files cannot be prepared") as error:
        prepare(read_task("image_folder", options_of(tree)), tmp_path / "out")
    message = str(error.value)
    assert "train/cat/0002.png: unknown: begins with b'<html>'" in message and "on_bad_file: skip" in message
    assert "test/dog/0001.png: truncated" in message
    assert list((tmp_path / "out").iterdir()) == [tmp_path / "out" / "shards"], "no incomplete folder is left"


def test_bad_files_are_skipped_and_listed_where_asked(tree, tmp_path):
    (tree / "train/cat/0002.png").write_bytes(b"<html>")
    task = read_task("image_folder", options_of(tree, on_bad_file="skip", shard_images=3))
    arrays = prepare(task, tmp_path / "out")
    data = open_data(arrays)
    assert data.train_labels.tolist() == [0] * 4 + [1] * 4 and read_description(arrays)["num_train"] == 8
    excluded = read_table(arrays / "exclusions.tsv")
    assert [(row["path"], row["split"], row["label"]) for row in excluded] == [("train/cat/0002.png", "train", "0")]
    assert excluded[0]["reason"].startswith("unknown: ")
    source = decode((tree / "train/cat/0003.png").read_bytes(), 1)
    assert np.array_equal(data.train_images[2], resize(source, (20, 28))), "the next ones move up"


def test_without_a_size_images_stay_as_they_are_and_must_be_alike(tree, tmp_path):
    options = {"folder": str(tree), "channels": 3}
    data = open_data(prepare(read_task("image_folder", options), tmp_path / "out"))
    assert data.image_shape == (40, 56, 3)
    assert np.array_equal(data.test_images[0], decode((tree / "test/cat/0000.png").read_bytes(), 3))
    (tree / "train/cat/0004.png").write_bytes(encode(smooth(30, 30)))
    with pytest.raises(ValueError, match=r"train/cat/0004.png: other_size: 30x30, not 40x56; set `size`"):
        prepare(read_task("image_folder", options), tmp_path / "again")


def test_images_that_a_camera_stored_on_their_side_keep_their_upright_size(tmp_path):
    counts = {f"{split}/{name}": 2 for split in ("train", "test") for name in ("cat", "dog")}
    write_tree(tmp_path / "tree", counts, suffix=".jpg")
    turned = Image.Exif()
    turned[ExifTags.Base.Orientation] = 6
    for index, path in enumerate(sorted((tmp_path / "tree").rglob("*.jpg"))):
        path.write_bytes(encode(smooth(40, 56, seed=index), "JPEG", exif=turned))
    options = {"folder": str(tmp_path / "tree"), "channels": 1}
    data = open_data(prepare(read_task("image_folder", options), tmp_path / "out"))
    assert data.image_shape == (56, 40, 1) and len(data.train_images) == 4


@pytest.mark.parametrize("library", ["opencv", "pillow"])
def test_the_library_changes_no_pixel(tree, tmp_path, library):
    folders = [
        prepare(read_task("image_folder", options_of(tree, library=name)), tmp_path / name)
        for name in ("fast", library)
    ]
    assert read_description(folders[0]) == read_description(folders[1])


def test_a_shard_depends_on_its_own_files_alone(tree):
    def fingerprints():
        read_task_once.cache_clear()
        task = read_task("image_folder", options_of(tree, shard_images=4))
        return [task.fingerprint_shard(shard) for shard in range(task.num_shards)], task.fingerprint_listing()

    def changed(before, after):
        return sum(one != other for one, other in zip(before[0], after[0], strict=True)), before[1] != after[1]

    before = fingerprints()
    assert changed(before, fingerprints()) == (0, False)
    (tree / "train/cat/0001.png").write_bytes(encode(smooth(seed=77)))
    edited = fingerprints()
    assert changed(before, edited) == (1, False)
    (tree / "train/cat/0009.png").write_bytes(encode(smooth(seed=78)))
    added = fingerprints()
    assert changed(edited, added) == (1, True)
    (tree / "train/cat/0009.png").unlink()
    assert changed(edited, fingerprints()) == (0, False)


def test_memory_of_a_shard_does_not_hold_its_images(tree, tmp_path, monkeypatch):
    """Each image is written before the next is read."""
    written = []
    task = read_task("image_folder", options_of(tree))
    images = tmp_path / "0.pixels"
    decode_one = decode

    def watch(*arguments):
        (partial,) = tmp_path.glob(".0.pixels.*")
        written.append(partial.stat().st_size)
        return decode_one(*arguments)

    monkeypatch.setattr("howmanygpus.prepare.shards.decode", watch)
    monkeypatch.setattr("builtins.open", lambda path, mode="r", **options: _open(path, mode, options))
    prepare_shard(task, 0, images, tmp_path / "0.tsv")
    assert written == [index * 20 * 28 for index in range(14)]
    assert len(list(read_records(tmp_path / "0.tsv"))) == 14


_builtin_open = open


def _open(path, mode, options):
    """Open without a buffer, so that the size of the file is up to date."""
    return _builtin_open(path, mode, **options, buffering=0) if mode == "wb" else _builtin_open(path, mode, **options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"folder": "nowhere"}, "folder: 'nowhere' is not a folder here; give a folder with the images"),
        ({"train": "training"}, "train: 'training' is not a folder in"),
        ({"size": [0, 4]}, r"size: \[0, 4\] is no size; write \[height, width\] in pixels"),
        ({"size": 264}, r"size: \[264\] is no size"),
        ({"channels": 2}, "channels: 2 is not known here; choose from 1, 3"),
        ({"channels": 3.0}, "channels: 3.0 is not known here; choose from 1, 3"),
        ({"channels": True}, "channels: True is not known here; choose from 1, 3"),
        ({"library": "pil"}, "library: 'pil' is not known here; choose from fast, opencv, pillow, pillow_simd"),
        ({"filter": "nearest"}, "filter: 'nearest' is not known here; choose from area, box"),
        ({"on_bad_file": "ignore"}, "on_bad_file: 'ignore' is not known here; choose from fail, skip"),
        ({"shard_images": 0}, "shard_images: 0 is no number of images; give at least 1"),
    ],
)
def test_wrong_options_are_refused(tree, changes, message):
    with pytest.raises(OptionError, match=message):
        describe_dataset("image_folder", options_of(tree, **changes))


def test_a_class_that_was_not_trained_on_is_refused(tree):
    (tree / "test" / "emu").mkdir()
    with pytest.raises(OptionError, match="has a class emu that train does not have"):
        describe_dataset("image_folder", options_of(tree))


def test_a_plan_names_the_place_of_a_wrong_option(tree):
    config = {"studies": {"s": study(dataset="pets", frameworks=["pytorch_ddp"], devices=["cpu"])}}
    for changes, message in (
        ({"size": [0, 1]}, "datasets.pets.options.size[0]: 0 is too small; give at least 1"),
        ({"size": 264}, "datasets.pets.options.size: 264 is not of type array or null; write [264, 264]"),
        ({"colour": 1}, 'datasets.pets: "pets" cannot be made: data source image_folder got an unexpected keyword'),
    ):
        datasets = {"pets": {"source": "image_folder", "options": options_of(tree, **changes)}}
        with pytest.raises(ConfigError) as error:
            Plan(config | {"datasets": datasets}, CPU)
        assert message in str(error.value)


def test_a_name_that_no_table_could_hold_is_refused(tree):
    (tree / "train/cat" / "a\tb.png").touch()
    with pytest.raises(OptionError, match=r"has the unprintable name .*; rename it"):
        describe_dataset("image_folder", options_of(tree))


# A byte that is not UTF-8 becomes half of a surrogate pair in names of files.
@pytest.mark.parametrize("name", ["caf\udce9", "a\tb"], ids=["Latin-1", "tab"])
def test_a_class_name_that_breaks_tables_is_refused(tree, name):
    (tree / "train" / "cat").rename(tree / "train" / name)
    for options in (options_of(tree), options_of(tree, train="train", split={"test": 0.5})):
        read_task_once.cache_clear()
        with pytest.raises(OptionError, match=r"has the unprintable name train/'.*\\.*'; rename it") as error:
            describe_dataset("image_folder", options)
        str(error.value).encode()


def test_folders_with_odd_names_are_told_in_plain_letters(tree):
    (tree / "train").rename(tree / "caf\udce9")
    with pytest.raises(OptionError, match=r"train: 'train' is not a folder in .* \('caf\\udce9' with 9 files") as error:
        describe_dataset("image_folder", options_of(tree))
    str(error.value).encode()


def test_the_files_of_a_killed_job_are_removed(tree, tmp_path):
    (tmp_path / ".0.pixels.abcd1234").write_bytes(bytes(10**6))
    task = read_task("image_folder", options_of(tree))
    prepare_shard(task, 0, tmp_path / "0.pixels", tmp_path / "0.tsv")
    assert (tmp_path / "0.pixels").stat().st_size == 14 * 20 * 28
    (tmp_path / ".arrays.abcd1234").mkdir()
    (tmp_path / ".arrays.abcd1234" / "old.npy").touch()
    merge_shards(task, [tmp_path / "0.pixels"], [tmp_path / "0.tsv"], tmp_path / "arrays")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.pixels", "0.tsv", "arrays", "pets"]


def test_how_files_are_read_reruns_no_training(tree):
    def settings(**options):
        datasets = {"pets": {"source": "image_folder", "options": options_of(tree, **options)}}
        given = study(dataset="pets", frameworks=["pytorch_ddp"], devices=["cpu"], per_device_batch_size=[2])
        return Plan({"studies": {"s": given}, "datasets": datasets}, CPU).settings

    assert settings() == settings(library="pillow", on_bad_file="skip", shard_images=5)
    assert settings().keys() == settings(filter="box").keys() and settings() != settings(filter="box")
