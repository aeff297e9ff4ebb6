"""Files and folders appear whole or not at all, and a lock has one holder at a time."""

import os
import threading
from pathlib import Path

import pytest

from hanging import HANG_S
from helpers.folder_listings import noticing
from howmanygpus.files import (
    atomic_folder,
    atomic_path,
    find_files,
    hold_lock,
    read_each,
    remove_leftovers,
    sha256_of_file,
    write_json_atomic,
    write_text_atomic,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def permissions(path: Path) -> int:
    return path.stat().st_mode & 0o777


def in_threads(*functions) -> None:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_a_file_is_replaced_when_its_writer_is_done(tmp_path):
    (tmp_path / "file").write_text("old")
    with atomic_path(tmp_path / "file") as partial:
        partial.write_text("new")
        assert (tmp_path / "file").read_text() == "old"
    assert (tmp_path / "file").read_text() == "new" and names(tmp_path) == ["file"]


def test_a_lock_has_the_permissions_of_any_new_file(tmp_path, umask):
    """In a folder of a group, its members take the lock in turns."""
    with hold_lock(tmp_path / "lock"):
        pass
    assert permissions(tmp_path / "lock") == 0o666 & ~umask


def test_an_exception_keeps_the_old_file_and_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(RuntimeError, match="stopped"), atomic_path(tmp_path / "file") as partial:
        partial.write_text("half")
        raise RuntimeError("stopped")
    assert (tmp_path / "file").read_text() == "old" and names(tmp_path) == ["file"]


def test_two_threads_that_write_one_path_do_not_meet(tmp_path):
    both_write, contents = threading.Barrier(2), ["a" * 10**6, "b" * 10**6]

    def write(content: str) -> None:
        with atomic_path(tmp_path / "file") as partial, open(partial, "w") as file:
            file.write(content[:1000])
            file.flush()
            both_write.wait(timeout=HANG_S)
            file.write(content[1000:])
            both_write.wait(timeout=HANG_S)

    in_threads(*(lambda content=content: write(content) for content in contents))
    assert (tmp_path / "file").read_text() in contents and names(tmp_path) == ["file"]


def test_a_new_file_has_the_permissions_of_any_other(tmp_path, umask):
    (tmp_path / "plain").touch()
    write_text_atomic(tmp_path / "file", "text")
    assert permissions(tmp_path / "file") == permissions(tmp_path / "plain") == 0o666 & ~umask


def test_a_number_that_json_does_not_have_is_refused(tmp_path):
    write_json_atomic(tmp_path / "file", {"loss": 1.5})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json_atomic(tmp_path / "file", {"loss": float("nan")})
    assert (tmp_path / "file").read_text() == '{\n "loss": 1.5\n}\n' and names(tmp_path) == ["file"]


def write_folder(path: Path, name: str) -> None:
    with atomic_folder(path) as partial:
        (partial / name).write_text(name)


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    write_folder(tmp_path / "deep" / "folder", "old")
    with atomic_folder(tmp_path / "deep" / "folder") as partial:
        (partial / "new").touch()
        assert names(tmp_path / "deep" / "folder") == ["old"]
    assert names(tmp_path / "deep" / "folder") == ["new"] and names(tmp_path / "deep") == ["folder"]


def test_an_exception_keeps_the_old_folder_and_leaves_nothing(tmp_path):
    write_folder(tmp_path / "folder", "old")
    with pytest.raises(RuntimeError, match="stopped"), atomic_folder(tmp_path / "folder") as partial:
        (partial / "half").touch()
        raise RuntimeError("stopped")
    assert names(tmp_path / "folder") == ["old"] and names(tmp_path) == ["folder"]


def test_a_folder_is_never_half_old(tmp_path, monkeypatch):
    """A process that is killed while it removes the old folder has put the new one in its place before."""
    write_folder(tmp_path / "folder", "old")
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    write_folder(tmp_path / "folder", "new")
    assert names(tmp_path / "folder") == ["new"]


def test_a_new_folder_has_the_permissions_of_any_other(tmp_path, umask):
    (tmp_path / "plain").mkdir()
    write_folder(tmp_path / "folder", "file")
    assert permissions(tmp_path / "folder") == permissions(tmp_path / "plain") == 0o777 & ~umask


def test_leftovers_of_killed_writers_are_removed_and_nothing_else(tmp_path):
    others = (".pets.lock", ".pets.v2.abcd1234", ".pet.abcd1234", "pets", "pets.v2")
    for name in others:
        (tmp_path / name).touch()
    process = os.fork()
    if not process:
        with atomic_path(tmp_path / "pets") as file, atomic_folder(tmp_path / "pets") as folder:
            file.write_text("half")
            (folder / "half").touch()
            os._exit(0)
    os.waitpid(process, 0)
    assert len(names(tmp_path)) == len(others) + 3
    remove_leftovers(tmp_path / "pets")
    assert names(tmp_path) == sorted(others)


def test_a_lock_has_one_holder_at_a_time(tmp_path):
    inside, most_inside = [], []

    def work() -> None:
        for _ in range(20):
            with hold_lock(tmp_path / "deep" / "lock"):
                inside.append(1)
                most_inside.append(len(inside))
                inside.pop()

    in_threads(work, work, work)
    assert most_inside == [1] * 60


def test_a_lock_is_free_after_an_exception(tmp_path):
    with pytest.raises(RuntimeError), hold_lock(tmp_path / "lock"):
        raise RuntimeError
    with hold_lock(tmp_path / "lock"):
        pass


def test_a_hash_depends_on_the_content_alone(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    assert sha256_of_file(tmp_path / "file") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_files_are_found_while_folders_vanish(tmp_path):
    """A run that completes removes its attempt, also after the folder was listed."""
    for name in ("stays", "vanishes"):
        (tmp_path / "attempts" / name).mkdir(parents=True)
    (tmp_path / "attempts" / "stays" / "file").touch()

    def vanish(path):
        if Path(path).name == "vanishes":
            Path(path).rmdir()

    with noticing(vanish):
        assert find_files(tmp_path / "attempts", "**/file") == [tmp_path / "attempts" / "stays" / "file"]
    assert find_files(tmp_path / "missing", "**/file") == []


def test_a_file_that_vanishes_before_it_is_read_is_left_out(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)

    def read(path: Path) -> str:
        (tmp_path / "b").unlink(missing_ok=True)
        return path.read_text()

    assert read_each(tmp_path, "?", read) == ["a", "c"]
