"""Speed and quality of preparing are measured on a sample and drawn."""

import sys

import numpy as np
import pandas as pd
import pytest

from howmanygpus.prepare.images import FILTERS, LIBRARIES, PILLOW_SIMD
from howmanygpus.prepare.images.resizing import PILLOW_FILTERS
from howmanygpus.prepare.listing import read_task
from howmanygpus.prepare.measuring import measure_preparation
from howmanygpus.prepare.other_python import OtherPython
from howmanygpus.report.files import read_table, write_table
from howmanygpus.report.preparation import PANELS, draw
from pictures import write_tree


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree") / "pets"
    write_tree(folder, {"train/cat": 4, "test/cat": 2})
    return folder


def measure(tree, **options) -> pd.DataFrame:
    return measure_preparation(read_task("image_folder", {"folder": str(tree), "channels": 1, **options}), 6)


@pytest.fixture(scope="module")
def table(tree) -> pd.DataFrame:
    return measure(tree, size=[13, 17])


def part(table, name) -> pd.DataFrame:
    return table[table["part"] == name].set_index("name")


def test_every_library_filter_and_format_has_a_row(table):
    assert list(part(table, "library").index) == list(LIBRARIES)
    assert list(part(table, "filter").index) == [*FILTERS, "OpenCV LINEAR"]
    assert list(part(table, "format").index) == ["PNG", "JPEG 75", "JPEG 90", "JPEG 95"]
    assert (table["images_per_s"] > 0).all() and set(table["num_images"]) == {6}
    assert table["machine"].str.len().min() > 0


def test_pillow_simd_takes_turns_in_the_process_of_its_environment(tree):
    """This Python stands for that of the environment, so that both resize alike."""
    task = read_task("image_folder", {"folder": str(tree), "channels": 1, "size": [13, 17]})
    table = measure_preparation(task, 6, sys.executable)
    assert list(part(table, "library").index) == [*LIBRARIES, PILLOW_SIMD]
    filters = part(table, "filter")
    assert {f"{name}, Pillow-SIMD" for name in PILLOW_FILTERS} < set(filters.index)
    for name in PILLOW_FILTERS:
        own, other = filters.loc[name], filters.loc[f"{name}, Pillow-SIMD"]
        assert own["psnr_db"] == other["psnr_db"] and other["images_per_s"] > 0


def test_a_function_that_fails_in_the_other_process_ends_the_measurement():
    with OtherPython(sys.executable) as other, pytest.raises(EOFError):
        other.call(int, "no number")


def test_downloads_state_the_size_of_the_files_in_megabytes(tree, table):
    mean_mb = np.mean([path.stat().st_size for path in tree.rglob("*.png")]) / 1e6
    rows = part(table, "library")
    assert np.allclose(rows["mb_per_s"], rows["images_per_s"] * mean_mb)


def test_effects_of_filters_and_jpeg_are_measured_against_a_reference(table):
    filters, formats = part(table, "filter"), part(table, "format")
    assert filters["mean_difference"].idxmin() == "lanczos" == filters["psnr_db"].idxmax()
    assert 0 < filters.loc["lanczos", "mean_difference"] < 0.35, "what rounding to whole levels leaves"
    assert formats.loc["PNG", "mean_difference"] == 0 and np.isnan(formats.loc["PNG", "psnr_db"])
    quality = formats.loc[["JPEG 75", "JPEG 90", "JPEG 95"]]
    assert quality["psnr_db"].is_monotonic_increasing and quality["kb_per_image"].is_monotonic_increasing


def test_aliasing_shows(tmp_path):
    stripes = np.tile(np.array([0, 255], np.uint8), (64, 64))
    write_tree(tmp_path / "stripes", {"train/a": 1, "test/a": 1}, stripes)
    filters = part(measure(tmp_path / "stripes", size=[20, 37]), "filter")
    assert filters.loc["OpenCV LINEAR", "mean_difference"] > 2 * filters.loc["area", "mean_difference"]


def test_images_that_keep_their_size_have_no_filters(tree):
    assert part(measure(tree), "filter").empty


def test_bad_images_are_no_sample(tree, tmp_path):
    write_tree(tmp_path / "bad", {"train/a": 2, "test/a": 1})
    for path in (tmp_path / "bad" / "train" / "a").iterdir():
        path.write_bytes(b"<html>")
    assert set(measure(tmp_path / "bad", size=[8, 8])["num_images"]) == {1}
    (tmp_path / "bad" / "test" / "a" / "0000.png").unlink()
    with pytest.raises(ValueError, match=r"no image of the sample of .*bad can be read"):
        measure(tmp_path / "bad", size=[8, 8])


@pytest.mark.parametrize("size", [[13, 17], None])
def test_the_figure_shows_each_part_that_was_measured(tree, tmp_path, size):
    table = measure(tree, size=size)
    write_table(tmp_path / "table.tsv", table)
    figure = draw(read_table(tmp_path / "table.tsv"))
    parts = [name for name in PANELS if name != "filter" or size]
    assert [axes.get_title(loc="left") for axes in figure.axes] == [PANELS[name][0] for name in parts]
    names = [text.get_text().split("\n")[0] for axes in figure.axes for text in axes.get_yticklabels()]
    assert names == [name for wanted in parts for name in part(table, wanted).index]
