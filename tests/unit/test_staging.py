"""Data on a node's own disk: copied once, told apart by their content."""

import json

import pytest

from howmanygpus.train.start.staging import stage


def write_data(folder, manifest):
    folder.mkdir(parents=True)
    (folder / "dataset.json").write_text(json.dumps({"sha256": {"manifest.tsv": manifest * 16}}))
    (folder / "train_images.npy").write_text(manifest)
    return folder


def test_data_are_copied_once_and_others_beside_them(tmp_path, monkeypatch):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("NODE_DISK", str(tmp_path / "scratch"))
    first, _ = stage(write_data(tmp_path / "a" / "arrays", "aaaa"), "$NODE_DISK")
    (first / "train_images.npy").write_text("still there")
    again, _ = stage(tmp_path / "a" / "arrays", "$NODE_DISK")
    other, _ = stage(write_data(tmp_path / "b" / "arrays", "bbbb"), "$NODE_DISK")
    assert again == first and (again / "train_images.npy").read_text() == "still there"
    assert other != first and (other / "train_images.npy").read_text() == "bbbb"


def test_a_copy_that_broke_off_is_made_again(tmp_path):
    data = write_data(tmp_path / "arrays", "aaaa")
    partial = tmp_path / "howmanygpus-aaaaaaaaaaaaaaaa-arrays.partial"
    partial.mkdir()
    (partial / "train_images.npy").write_text("half")
    copy, _ = stage(data, str(tmp_path))
    assert (copy / "train_images.npy").read_text() == "aaaa"


def test_a_scratch_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"\$NOWHERE in the machine file"):
        stage(write_data(tmp_path / "arrays", "aaaa"), "$NOWHERE")
