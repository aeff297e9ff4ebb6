"""Test that images are read once before the clock starts, if memory holds them."""

import numpy as np
import pytest

from helpers.specs import make_data, make_spec
from howmanygpus.measure.input import reading
from howmanygpus.measure.input.image_files import ImageFiles
from howmanygpus.measure.input.reading import list_files, read_images


@pytest.fixture
def folder(tmp_path):
    for split, count in (("train", 40), ("test", 3)):
        for index in range(count):
            path = ImageFiles(tmp_path, split, "png", (count, 6, 6, 1), 1).path(index)
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(b"x" * 1000)
    return tmp_path


def with_files(folder):
    data = make_data(num_train=40, num_test=3)
    files = {
        f"{split}_images": ImageFiles(folder, split, "png", (count, 6, 6, 1), 1)
        for split, count in (("train", 40), ("test", 3))
    }
    return type(data)(**vars(data) | files)


@pytest.fixture
def read(monkeypatch):
    """The files that were read."""
    names = []
    monkeypatch.setattr(reading, "read_file", names.append)
    return names


def test_every_image_is_read_once(folder, read):
    assert read_images(make_spec(epochs=3), with_files(folder), 2)
    assert sorted(read) == sorted(str(path) for path in folder.rglob("*.png"))


def test_a_run_of_less_than_an_epoch_reads_only_its_own_images(folder):
    files = list_files(make_spec(epochs=None, steps=2), with_files(folder))
    assert len([name for name in files if "/train/" in name]) == len(set(files)) - 3 == 16


def test_images_that_memory_cannot_hold_are_not_read(folder, read, monkeypatch):
    monkeypatch.setattr(reading, "compute_free_bytes", lambda: 43_000 / 0.8 - 1)
    assert not read_images(make_spec(), with_files(folder), 2)
    assert read == []
    monkeypatch.setattr(reading, "compute_free_bytes", lambda: 43_000 / 0.8 + 1)
    assert read_images(make_spec(), with_files(folder), 2)


def test_arrays_are_read_by_file(tmp_path, read):
    np.save(tmp_path / "images.npy", np.zeros((40, 6, 6, 1), np.uint8))
    data = make_data(num_train=40)
    mapped = type(data)(**vars(data) | {"train_images": np.load(tmp_path / "images.npy", mmap_mode="r")})
    assert read_images(make_spec(), mapped, 1)
    assert read == [str(tmp_path / "images.npy")]
