"""A full disk and a quota that is used up are named with the folder and the remedy."""

import errno
import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from helpers.messages import says
from howmanygpus.invocation import disk
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})


@pytest.fixture
def small_disk(tmp_path):
    """Mount a disk of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"mount is not allowed here: {mounted.stderr.decode()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_named_and_nothing_is_left_on_it(small_disk):
    (message,) = disk.list_full_disks([small_disk / "results" / "not_there_yet"])
    assert message.startswith(f"{small_disk}: 16 MiB cannot be written: No space left on device (0.00 of 0.00 GiB")
    assert "then give the same call again" in message and list(small_disk.iterdir()) == []


def test_a_disk_with_room_is_not_named(tmp_path):
    assert disk.list_full_disks([tmp_path]) == [] and list(tmp_path.iterdir()) == []


def test_a_quota_that_is_used_up_is_named(tmp_path, monkeypatch):
    def fsync(_):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(disk.os, "fsync", fsync)
    (message,) = disk.list_full_disks([tmp_path])
    assert "Disk quota exceeded (`quota -s`" in message and str(tmp_path) in message


def test_a_cache_that_others_maintain_need_not_be_writable(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(disk.tempfile, "TemporaryFile", refuse)
    assert disk.list_full_disks([tmp_path]) == []


@pytest.mark.parametrize("link", ["results", "results/prepared", ".snakemake"])
def test_a_link_to_a_folder_that_is_gone_is_refused_by_a_dry_run(project, link):
    shutil.rmtree(project.folder / link, ignore_errors=True)
    (project.folder / link).parent.mkdir(exist_ok=True)
    (project.folder / link).symlink_to("/scratch/that/is/gone")
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    printed = project.snakemake("--dry-run", expect=1)
    assert says(printed, f"snakemake: {link}: ", "/scratch/that/is/gone", "remove the link")
    assert "Traceback" not in printed


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_the_words_of_a_log_name_the_full_disk(tmp_path, number):
    log = tmp_path / "job.log"
    early = "early\n" * 20_000
    log.write_text(f"{early}ERROR: [Errno {number}] {os.strerror(number)}\nexit\n")
    assert disk.find_disk_full_message(log) == f"ERROR: [Errno {number}] {os.strerror(number)}"
    log.write_text("done\n")
    assert disk.find_disk_full_message(log) == disk.find_disk_full_message(tmp_path / "missing") == ""


def test_the_project_its_results_and_the_cache_are_looked_at(tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "project" / "results").symlink_to(tmp_path / "scratch")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOWMANYGPUS_CACHE", str(tmp_path / "cache"))
    assert disk.list_folders() == [tmp_path / name for name in ("project", "scratch", "cache")]


def test_data_that_does_not_fit_is_refused_unless_it_or_its_runs_exist(tmp_path, monkeypatch):
    """The images of `a` take 0.5 GiB and those of `b` 0.75 GiB, as real and as random ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda folder: SimpleNamespace(free=2**30))
    options = {"image_shape": [1024, 1024, 1], "num_classes": 2, "num_test": 256}
    sizes = {"a": 256, "b": 512}
    datasets = {name: {"source": "patterns", "options": options | {"num_train": size}} for name, size in sizes.items()}
    one = {"frameworks": ["pytorch_ddp"], "num_gpus": [1], "devices": ["cpu"]}
    studies = {name: study(**one, dataset=name, inputs=["arrays", "png"]) for name in datasets}
    plan = Plan({"studies": studies, "datasets": datasets}, CPU)
    (message,) = disk.find_lack_of_space(plan)
    assert says(message, "datasets.b", "results/prepared/b/arrays", "0.75 GiB", tmp_path, "1.00 GiB", "0.50", "fewer")
    prepared = tmp_path / "results" / "prepared" / "a" / "arrays" / "dataset.json"
    prepared.parent.mkdir(parents=True)
    prepared.touch()
    assert disk.find_lack_of_space(plan) == []
    studies["b"] |= {"inputs": ["synthetic", "resident", "arrays"]}
    plan = Plan({"studies": studies, "datasets": datasets}, CPU)
    assert len(disk.find_lack_of_space(plan)) == 1
    for run in plan.studies["b"].runs:
        (tmp_path / "results" / "runs" / run.path).mkdir(parents=True)
        (tmp_path / "results" / "runs" / run.path / "run.json").touch()
    assert disk.find_lack_of_space(plan) == []
