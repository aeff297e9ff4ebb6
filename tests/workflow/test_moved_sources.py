"""The contents of a data set decide what is done again, and not the place or the times of its files."""

import json
import os
import shutil

import numpy as np
import pytest
import yaml

from pictures import encode, smooth, write_tree
from project import RUNS, Project, study

PLANNED = ("--until", "train", "plan_runs")
COUNTS = {"train/cat": 6, "train/dog": 6, "test/cat": 3, "test/dog": 3}


def write_config(project, place: str) -> None:
    """Write a config whose data sets lie in a folder: images in a tree, images with a table, and CIFAR-10's files."""
    prepared = {"size": [8, 8], "channels": 1, "shard_images": 6}
    datasets = {
        "tree": {"source": "image_folder", "options": {"folder": f"{place}/tree", **prepared}},
        "table": {
            "source": "image_csv",
            "options": {
                "folder": f"{place}/tree",
                "table": f"{place}/table.csv",
                "label_column": "labels",
                "separator": "|",
                "finding": "cat",
                "on_bad_file": "skip",
                **prepared,
            },
        },
        "cifar": {"source": "cifar10", "options": {"folder": f"{place}/cifar"}},
    }
    options = {"frameworks": ["sleeping"], "num_gpus": [1], "per_device_batch_size": [2], "steps": 4}
    inputs = {"tree": ["arrays", "synthetic"], "table": ["png"], "cifar": ["arrays", "synthetic"]}
    studies = {name: study(dataset=name, inputs=inputs[name], **options) for name in datasets}
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump({"studies": studies, "datasets": datasets}))


def write_sources(folder) -> None:
    write_tree(folder / "tree", COUNTS)
    (folder / "tree/train/cat/bad.png").write_bytes(b"<html>")
    (folder / "tree/train/cat/bad.png").rename(folder / "tree/bad.png")
    rows = [f"{place}/{index:04d}.png,{place[-3:]},{place.split('/')[0]}" for place in COUNTS for index in range(3)]
    (folder / "table.csv").write_text("\n".join(["path,labels,split", *rows, "bad.png,cat,train"]))
    (folder / "cifar").mkdir()
    random = np.random.default_rng(0)
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        rows_of_batch = random.integers(0, 256, (4, 3073), dtype=np.uint8)
        rows_of_batch[:, 0] %= 10
        (folder / "cifar" / f"{name}.bin").write_bytes(rows_of_batch.tobytes())


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Project:
    project = Project(tmp_path_factory.mktemp("moved") / "project", fakes=["sleeping"])
    write_sources(project.folder / "here")
    write_config(project, "here")
    project.snakemake(*PLANNED)
    assert project.planned(*PLANNED) == []
    return project


@pytest.fixture
def copy(finished, tmp_path) -> Project:
    return finished.copy_to(tmp_path / "project")


def move(project, copy_function) -> None:
    """Copy the sources to another place, remove the old ones, and correct the config."""
    shutil.copytree(project.folder / "here", project.folder / "there", copy_function=copy_function)
    shutil.rmtree(project.folder / "here")
    write_config(project, "there")


def planned(project) -> list[str]:
    """Return the planned jobs: preparation, runs, and the plans, from which all tables are made."""
    return project.planned(*PLANNED)


@pytest.mark.parametrize("copy_function", [shutil.copy2, shutil.copyfile], ids=["same times", "new times"])
def test_moved_sources_rerun_nothing(copy, copy_function):
    move(copy, copy_function)
    assert planned(copy) == []
    copy.snakemake(*PLANNED)
    assert planned(copy) == []


def test_contents_are_compared_once(copy):
    move(copy, shutil.copyfile)
    words = "have other times than when they were prepared; comparing"
    assert words in copy.snakemake(*RUNS, "--dry-run") and words not in copy.snakemake(*RUNS, "--dry-run")


def test_a_changed_image_or_label_is_noticed_after_a_move(copy):
    move(copy, shutil.copyfile)
    path = copy.folder / "there/tree/train/dog/0001.png"
    path.write_bytes(encode(smooth(seed=99)))
    labels = copy.folder / "there/table.csv"
    labels.write_text(labels.read_text().replace("test/dog/0001.png,dog", "test/dog/0001.png,cat"))
    batch = copy.folder / "there/cifar/test_batch.bin"
    batch.write_bytes(bytes([(batch.read_bytes()[0] + 1) % 10]) + batch.read_bytes()[1:])
    jobs = planned(copy)
    assert {job.split("/")[0] for job in jobs if "/" in job} == {"tree", "table", "cifar"}
    assert [job for job in jobs if "synthetic" in job] == []
    assert (jobs.count("prepare_shard"), jobs.count("merge_shards"), jobs.count("prepare_arrays")) == (2, 2, 1)


def test_another_filter_is_noticed_after_a_move(copy):
    move(copy, shutil.copyfile)
    path = copy.folder / "config" / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["datasets"]["tree"]["options"]["filter"] = "bilinear"
    path.write_text(yaml.safe_dump(config))
    assert {job.split("/")[0] for job in planned(copy) if "/" in job} == {"tree"}


def test_a_shard_that_must_be_made_again_is_made_from_the_moved_files(copy):
    move(copy, shutil.copyfile)
    assert planned(copy) == []
    before = copy.read("results/prepared/tree/arrays/dataset.json")
    next((copy.folder / "results/prepared/tree/shards").glob("*.pixels")).unlink()
    copy.snakemake("prepared")
    assert copy.read("results/prepared/tree/arrays/dataset.json") == before
    assert planned(copy) == []


def test_touched_images_rerun_nothing(copy):
    for path in (copy.folder / "here/tree").rglob("*.png"):
        os.utime(path)
    assert planned(copy) == []
    assert json.loads(copy.read("results/prepared/tree/sources.json"))


def test_files_that_were_changed_in_place_are_noticed(copy):
    batch = copy.folder / "here/cifar/test_batch.bin"
    batch.write_bytes(bytes([(batch.read_bytes()[0] + 1) % 10]) + batch.read_bytes()[1:])
    assert planned(copy) == ["cifar/sleeping/base/arrays_fp32_cpu_gpus1_batch2_repeat1", "prepare_arrays"]
    copy.snakemake(*RUNS)
    assert planned(copy) == []


def test_touched_files_of_arrays_rerun_nothing(copy):
    for path in (copy.folder / "here/cifar").iterdir():
        os.utime(path)
    assert planned(copy) == []


def test_random_images_follow_the_number_of_real_ones(copy):
    path = copy.folder / "here/tree/train/dog/0001.png"
    more = path.with_name("0091.png")
    path.rename(more)
    assert [job for job in planned(copy) if "synthetic" in job] == []
    shutil.copyfile(more, path)
    assert {"prepare_synthetic", "tree/sleeping/base/synthetic_fp32_cpu_gpus1_batch2_repeat1"} <= set(planned(copy))
    copy.snakemake(*RUNS)
    assert planned(copy) == []
    found = [json.loads(copy.read(f"results/prepared/tree/{form}/dataset.json")) for form in ("arrays", "synthetic")]
    assert [description["num_train"] for description in found] == [13, 13]
    more.unlink()
    assert "prepare_synthetic" in planned(copy)
