"""Data are copied to a node's own disk once, into a folder whose name is the hash of their content."""

from pathlib import Path

import pytest

from helpers.specs import make_data
from howmanygpus.measure.input.description import read_description
from howmanygpus.measure.input.writing import write_data
from howmanygpus.measure.launch.staging import stage


def write(folder: Path, seed: int) -> Path:
    write_data(folder, make_data(num_train=3, num_test=2, seed=seed))
    return folder


def content(folder: Path) -> bytes:
    return (folder / "train_images.npy").read_bytes()


def test_data_are_copied_once_and_others_beside_them(tmp_path, monkeypatch):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("NODE_DISK", str(tmp_path / "scratch"))
    one, two = write(tmp_path / "a" / "arrays", seed=1), write(tmp_path / "b" / "arrays", seed=2)
    first, _ = stage(one, "$NODE_DISK")
    assert content(first) == content(one)
    (first / "train_images.npy").write_bytes(b"still there")
    again, _ = stage(one, "$NODE_DISK")
    other, _ = stage(two, "$NODE_DISK")
    assert again == first and content(again) == b"still there"
    assert other != first and content(other) == content(two)


def test_a_copy_that_broke_off_is_made_again(tmp_path):
    data = write(tmp_path / "arrays", seed=1)
    manifest = read_description(data)["sha256"]["manifest.tsv"][:16]
    partial = tmp_path / f".howmanygpus-{manifest}-arrays.abcd1234"
    partial.mkdir()
    (partial / "train_images.npy").write_text("half")
    copy, _ = stage(data, str(tmp_path))
    assert not partial.exists(), "the node's disk is not filled by copies that broke off"
    assert copy == tmp_path / f"howmanygpus-{manifest}-arrays" and content(copy) == content(data)


def test_a_scratch_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"\$NOWHERE in the machine file"):
        stage(write(tmp_path / "arrays", seed=1), "$NOWHERE")
