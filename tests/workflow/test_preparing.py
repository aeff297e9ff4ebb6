"""Image files are prepared by jobs, and what changes is done again, and no more."""

import shutil

import pytest
import yaml

from pictures import encode, smooth, write_tree
from project import Project, study

COUNTS = {"train/cat": 6, "train/dog": 6, "test/cat": 3, "test/dog": 3}


def write_config(project, **options):
    options = {"folder": "pets", "size": [8, 8], "channels": 1, "shard_images": 6, **options}
    config = {"studies": {"first": study()}, "datasets": {"pets": {"source": "image_folder", "options": options}}}
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Project:
    project = Project(tmp_path_factory.mktemp("prepared") / "project")
    write_tree(project.folder / "pets", COUNTS)
    write_config(project)
    project.snakemake("prepared")
    return project


@pytest.fixture
def copy(finished, tmp_path) -> Project:
    copied = Project.__new__(Project)
    copied.folder = tmp_path / "project"
    shutil.copytree(finished.folder, copied.folder, symlinks=True, copy_function=shutil.copy2)
    return copied


def planned(project) -> list[str]:
    return [job for job in project.planned("prepared") if job != "prepared"]


def test_a_data_set_that_no_study_uses_is_prepared_by_its_own_target(finished):
    rows = finished.read("results/prepared/pets/arrays/manifest.tsv").splitlines()
    assert len(rows) == 1 + sum(COUNTS.values())
    assert finished.read("results/prepared/pets/arrays/exclusions.tsv").splitlines() == ["path\tsplit\tlabel\treason"]
    assert not (finished.folder / "results" / "runs").exists()
    log = finished.read("results/logs/prepare_shard/pets/shard0of4.log")
    assert "shard 1 of 4: " in log and " images/s, " in log
    assert planned(finished) == []


def test_a_changed_file_redoes_its_shard_and_the_merge(copy):
    (copy.folder / "pets/train/cat/0001.png").write_bytes(encode(smooth(seed=99)))
    assert planned(copy) == ["merge_shards", "prepare_shard"]
    copy.snakemake("prepared")
    assert planned(copy) == []


def test_an_added_file_redoes_its_shard_and_the_merge(copy):
    (copy.folder / "pets/train/cat/0100.png").write_bytes(encode(smooth(seed=98)))
    assert planned(copy) == ["merge_shards", "prepare_shard"]


def test_what_happens_to_bad_files_concerns_the_merge_alone(copy):
    (copy.folder / "pets/train/cat/0001.png").write_bytes(b"<html>")
    output = copy.snakemake("prepared", expect=1)
    assert "1 files cannot be prepared (1 unknown)" in output and "train/cat/0001.png: unknown: begins with" in output
    write_config(copy, on_bad_file="skip")
    assert planned(copy) == ["merge_shards"]
    copy.snakemake("prepared")
    assert "train/cat/0001.png\ttrain\t0\tunknown: " in copy.read("results/prepared/pets/arrays/exclusions.tsv")


def test_the_library_reruns_nothing_and_the_filter_all(copy):
    write_config(copy, library="pillow")
    assert planned(copy) == []
    write_config(copy, filter="lanczos")
    assert planned(copy) == ["merge_shards", *["prepare_shard"] * 4]


def test_a_wrong_option_is_refused_before_the_first_job(copy):
    write_config(copy, folder="nowhere")
    assert 'datasets.pets.options.folder: "nowhere" is no folder here; name' in copy.snakemake("prepared", expect=1)
