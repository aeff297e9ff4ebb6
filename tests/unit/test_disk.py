"""A full disk and a quota that is used up are named with the folder and the remedy."""

import errno
import os
import subprocess

import pytest

from howmanygpus.call import disk


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
    (message,) = disk.find_full_disks([small_disk / "results" / "not_there_yet"])
    assert message.startswith(f"{small_disk}: 16 MiB cannot be written: No space left on device (0.00 of 0.00 GiB")
    assert "then give the same call again" in message and list(small_disk.iterdir()) == []


def test_a_disk_with_room_is_not_named(tmp_path):
    assert disk.find_full_disks([tmp_path]) == [] and list(tmp_path.iterdir()) == []


def test_a_quota_that_is_used_up_is_named(tmp_path, monkeypatch):
    def fsync(_):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(disk.os, "fsync", fsync)
    (message,) = disk.find_full_disks([tmp_path])
    assert "Disk quota exceeded (`quota -s`" in message and str(tmp_path) in message


def test_a_cache_that_others_maintain_need_not_be_writable(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(disk.tempfile, "TemporaryFile", refuse)
    assert disk.find_full_disks([tmp_path]) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_the_words_of_a_log_name_the_full_disk(tmp_path, number):
    log = tmp_path / "job.log"
    early = "early\n" * 20_000
    log.write_text(f"{early}ERROR: [Errno {number}] {os.strerror(number)}\nexit\n")
    assert disk.find_words_of_full_disk(log) == f"ERROR: [Errno {number}] {os.strerror(number)}"
    log.write_text("done\n")
    assert disk.find_words_of_full_disk(log) == disk.find_words_of_full_disk(tmp_path / "missing") == ""


def test_the_project_its_results_and_the_cache_are_looked_at(tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "project" / "results").symlink_to(tmp_path / "scratch")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOWMANYGPUS_CACHE", str(tmp_path / "cache"))
    assert disk.list_folders() == [tmp_path / name for name in ("project", "scratch", "cache")]
