"""Image files have the arrays' pixels, are verified without reading all of them, and are refused if broken."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.specs import make_data, make_spec
from howmanygpus.measure.input.batches import TrainingBatches, evaluation_batches
from howmanygpus.measure.input.description import read_description, verify_data
from howmanygpus.measure.input.image_files import ImageFiles
from howmanygpus.measure.input.prepared import PreparedData, open_data
from howmanygpus.measure.input.writing import write_data
from howmanygpus.prepare import image_files
from howmanygpus.prepare.image_files import prepare_images

CHANNELS = (1, 3)


def draw_scene(random, height: int, width: int, channels: int) -> np.ndarray:
    """Draw waves with a little noise, which JPEG can compress."""
    rows, columns, phases = np.arange(height)[:, None, None], np.arange(width)[:, None], random.random(channels) * 6
    waves = np.sin(rows / 9 + phases) + np.cos(columns / 7 - phases)
    return np.clip(128 + 50 * waves + random.normal(0, 4, (height, width, channels)), 0, 255).astype(np.uint8)


def prepare(folder: Path, form: str, channels: int, num_train: int = 20) -> tuple[Path, PreparedData]:
    """Write scenes as arrays and as image files below `folder`; returns the folder of the files and the arrays."""
    random = np.random.default_rng(channels)
    given = make_data(num_train=num_train, num_test=9, image_shape=(24, 31, channels))
    scenes = [draw_scene(random, 24, 31, channels) for _ in range(num_train + 9)]
    given.train_images[:], given.test_images[:] = scenes[:num_train], scenes[num_train:]
    write_data(folder / "arrays", given)
    prepare_images(folder / "arrays", form, folder / form, num_threads=2)
    return folder / form, given


@pytest.fixture
def prepared(tmp_path):
    return lambda form, channels, **options: prepare(tmp_path, form, channels, **options)


@pytest.mark.parametrize("channels", CHANNELS)
def test_png_files_have_the_pixels_of_the_arrays(prepared, channels):
    folder, given = prepared("png", channels)
    data = open_data(folder, num_threads=2)
    assert data.image_shape == given.image_shape and len(data.train_images) == 20
    assert np.array_equal(data.train_images[np.arange(20)], given.train_images)
    assert np.array_equal(data.test_images[3], given.test_images[3])
    assert np.array_equal(data.test_labels, given.test_labels)


@pytest.mark.parametrize("channels", CHANNELS)
def test_jpeg_files_are_near_the_arrays_and_their_record_says_how_near(prepared, channels):
    folder, given = prepared("jpeg", channels)
    difference = np.abs(open_data(folder).train_images[np.arange(20)].astype(float) - given.train_images)
    assert 0 < difference.mean() < 6, "levels"
    description = read_description(folder)
    assert (description["form"], description["quality"]) == ("jpeg", 90)
    assert description["loss"]["mean_levels"] == pytest.approx(difference.mean())
    assert description["loss"]["max_levels"] == difference.max()


@pytest.mark.parametrize(("form", "channels"), [("png", 1), ("png", 3), ("jpeg", 1), ("jpeg", 3)])
def test_any_program_can_read_the_files(prepared, form, channels):
    folder, _ = prepared(form, channels)
    path = folder / "images" / "test" / "0000" / ("0000003.png" if form == "png" else "0000003.jpg")
    with Image.open(path) as image:
        assert (image.format, image.mode) == (form.upper(), "L" if channels == 1 else "RGB")
        pixels = np.asarray(image).reshape(24, 31, channels).astype(int)
    assert np.abs(pixels - open_data(folder).test_images[3]).max() <= (0 if form == "png" else 2)


def test_image_files_have_the_description_of_the_arrays(prepared):
    folder, given = prepared("png", 3)
    files, arrays = read_description(folder), read_description(folder.parent / "arrays")
    assert {key: files[key] for key in arrays if key != "sha256"} == {
        key: value for key, value in arrays.items() if key != "sha256"
    }
    assert files["arrays_manifest_sha256"] == arrays["sha256"]["manifest.tsv"]
    assert set(files["sha256"]) == {"manifest.tsv", "train_labels.npy", "test_labels.npy"}
    lines = [line.split("\t") for line in (folder / "manifest.tsv").read_text().splitlines()]
    assert lines[0] == ["index", "split", "label", "sha256", "bytes"] and len(lines) == 1 + 20 + 9
    labels = [int(line[2]) for line in lines[1:]]
    assert labels == [*given.train_labels, *given.test_labels]
    assert sorted(path.name for path in folder.parent.iterdir()) == ["arrays", "png"], "nothing else is left"


def test_no_folder_has_more_than_a_thousand_files(prepared, monkeypatch):
    monkeypatch.setattr(image_files, "FILES_PER_FOLDER", 8)
    monkeypatch.setattr("howmanygpus.measure.input.description.FILES_PER_FOLDER", 8)
    folder, given = prepared("png", 1)
    assert [len(list(part.iterdir())) for part in sorted((folder / "images" / "train").iterdir())] == [8, 8, 4]
    assert np.array_equal(open_data(folder).train_images[np.arange(20)], given.train_images)


def test_batches_of_png_files_match_batches_of_arrays(prepared):
    folder, given = prepared("png", 3)
    spec = make_spec(epochs=2, random_flip=True, random_crop_padding=3, loader_workers=2)
    data = open_data(folder, num_threads=2)
    for one, other in zip(TrainingBatches(spec, data, 0, 1), TrainingBatches(spec, given, 0, 1), strict=True):
        assert np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])
    share = (8, 1, 2)
    pairs = zip(
        evaluation_batches(data.test_images, *share), evaluation_batches(given.test_images, *share), strict=True
    )
    assert all(np.array_equal(one[0], other[0]) for one, other in pairs)


def test_files_that_are_missing_or_cut_short_are_found_before_a_run(prepared):
    folder, _ = prepared("jpeg", 1)
    verify_data(folder, read_description(folder))
    path = folder / "images" / "test" / "0000" / "0000008.jpg"
    content = path.read_bytes()
    path.write_bytes(content[:-10])
    with pytest.raises(
        ValueError, match=rf"0000008.jpg has {len(content) - 10} bytes, not the recorded {len(content)}; delete"
    ):
        verify_data(folder, read_description(folder))
    path.unlink()
    with pytest.raises(ValueError, match=r"0000008.jpg is missing; delete .* and run the workflow again"):
        verify_data(folder, read_description(folder))


def test_a_changed_manifest_is_found_before_a_run(prepared):
    folder, _ = prepared("png", 1)
    with open(folder / "manifest.tsv", "a") as manifest:
        manifest.write("20\ttrain\t1\tabc\t12\n")
    with pytest.raises(ValueError, match=r"manifest.tsv: SHA-256 is"):
        verify_data(folder, read_description(folder))


@pytest.mark.parametrize("form", ["png", "jpeg"])
def test_a_file_that_is_no_image_is_named(prepared, form):
    folder, _ = prepared(form, 1)
    images = open_data(folder).train_images
    Path(images.path(5)).write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match=r"0000005\.\w+: cannot be decoded; delete"):
        images[np.array([4, 5])]


def test_an_image_of_another_size_is_named(prepared):
    folder, _ = prepared("png", 1)
    other = ImageFiles(folder, "train", "png", (20, 24, 30, 1), 1)
    with pytest.raises(ValueError, match=r"0000002.png: has shape \(24, 31, 1\), not \(24, 30, 1\)"):
        other[2]


def test_writing_again_replaces_the_earlier_files(prepared):
    folder, _ = prepared("png", 1)
    (folder / "images" / "train" / "0000" / "leftover.png").touch()
    record = json.loads((folder / "dataset.json").read_text())
    folder, given = prepared("png", 1)
    assert not (folder / "images" / "train" / "0000" / "leftover.png").exists()
    assert json.loads((folder / "dataset.json").read_text()) == record
    assert np.array_equal(open_data(folder).train_images[np.arange(20)], given.train_images)
