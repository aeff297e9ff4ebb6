"""Images of other kinds than PNG and JPEG are refused, and the message names the kind and the remedy."""

import numpy as np
import pytest

from howmanygpus.prepare.checks.excluded import check_exclusions
from howmanygpus.prepare.images import BadImageError
from howmanygpus.prepare.images.headers import read_header
from howmanygpus.prepare.listing import describe_dataset, read_task, read_task_once
from howmanygpus.prepare.shards import prepare_image
from howmanygpus.prepare.sources import OptionError
from pictures import encode, smooth

KINDS = {
    "DICOM": bytes(128) + b"DICM" + bytes(100),
    "TIFF": b"II*\0" + bytes(100),
    "BMP": b"BM" + bytes(100),
    "WebP": b"RIFF\x10\0\0\0WEBPVP8 " + bytes(100),
}
ONLY = "since only these are read"


@pytest.fixture(autouse=True)
def forget():
    read_task_once.cache_clear()


def write_images(folder, ending: str, content: bytes) -> dict:
    """Write two images into each class of both splits, and return the options of the data set."""
    for name in ("train/cat", "train/dog", "test/cat", "test/dog"):
        (folder / name).mkdir(parents=True)
        for index in range(2):
            (folder / name / f"{index}{ending}").write_bytes(content)
    return {"folder": str(folder)}


@pytest.mark.parametrize(("kind", "content"), KINDS.items(), ids=KINDS)
def test_the_header_of_another_kind_names_it(kind, content):
    with pytest.raises(BadImageError, match=f"unknown: a {kind} file"):
        read_header(content)


@pytest.mark.parametrize("size", [None, [8, 8]])
def test_a_folder_of_another_kind_is_refused_before_any_job(tmp_path, size):
    options = write_images(tmp_path, ".DCM", KINDS["DICOM"])
    message = rf"has 8 files .dcm, of which the first, train/cat/0.DCM, is a DICOM file; convert .* PNG or JPEG, {ONLY}"
    with pytest.raises(OptionError, match=f"folder: .* {message}"):
        describe_dataset("image_folder", options | {"size": size})


def test_a_folder_of_another_kind_without_endings_is_refused_if_no_size_is_given(tmp_path):
    options = write_images(tmp_path, "", KINDS["DICOM"])
    message = rf"8 files without an ending, such as train/cat/0 \(unknown: a DICOM file\); convert .*, {ONLY}"
    with pytest.raises(OptionError, match=f"size: None finds no image that can be read in .*, which has {message}"):
        describe_dataset("image_folder", options)


@pytest.mark.parametrize("size", [None, [8, 8]])
def test_levels_of_12_bits_are_refused_before_any_job_and_kept_if_they_are_given(tmp_path, size):
    image = (smooth().astype(np.uint32) * 4095 // 255).astype(np.uint16)
    options = write_images(tmp_path, ".png", encode(image)) | {"size": size, "channels": 1}
    with pytest.raises(OptionError, match=r"levels: None .*train/cat/0\.png") as error:
        describe_dataset("image_folder", options)
    assert "[0, 4095]" in error.value.remedy and str(image.max()) in error.value.problem
    options |= {"levels": [0, 4095]}
    assert describe_dataset("image_folder", options).image_shape == (*(size or image.shape), 1)
    kept = prepare_image(read_task("image_folder", options | {"size": None}), encode(image))
    assert np.array_equal(kept[..., 0], smooth())


@pytest.mark.parametrize("levels", [4095, [4095], [0, 65536], [10, 10], [0, True], ["0", "4095"]])
def test_levels_that_are_none_are_refused(tmp_path, levels):
    options = write_images(tmp_path, ".png", encode(smooth())) | {"levels": levels}
    with pytest.raises(OptionError, match=r"levels: .* no levels .*\[0, 4095\]"):
        describe_dataset("image_folder", options)


def test_images_whose_ending_is_wrong_are_read(tmp_path):
    options = write_images(tmp_path, ".bmp", encode(smooth()))
    assert describe_dataset("image_folder", options).num_train == 4


def test_files_of_another_kind_among_images_are_to_be_converted(tmp_path):
    task = read_task("image_folder", write_images(tmp_path, ".png", encode(smooth())) | {"size": [8, 8]})
    with pytest.raises(ValueError, match=r"\nOnly PNG and JPEG are read: convert images of other kinds\.\nRepair"):
        check_exclusions(task, [(task.listing.entries[0], "unknown: a TIFF file")])
    with pytest.raises(ValueError, match="1 files cannot be prepared") as error:
        check_exclusions(task, [(task.listing.entries[0], "empty: 0 bytes")])
    assert "Only PNG" not in str(error.value)
