"""Write files and folders that appear whole or not at all, hash files, and lock. Every room uses this module."""

import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
RANDOM_CHARACTERS = 8
"""Length of the random part of a name that `tempfile` makes."""


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yield a new name beside `path`; the file written there replaces `path` when the block ends.

    If the block raises, `path` keeps its content and the new file is removed. Each caller gets a name of its own, so
    that threads and processes that write the same path do not interfere.
    """
    path = Path(path)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    # mkstemp creates a file that only its owner can read; this one gets the permissions of any new file.
    partial = Path(name)
    partial.chmod(0o666 & ~_umask())
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path | str) -> Iterator[Path]:
    """Yield a new empty folder beside `path`, which replaces `path` when the block ends and is removed if it raises.

    At every moment `path` is the old folder, the new one, or missing, and never a mixture. Only one process at a time
    may write a folder.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial, old = (Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent)) for _ in range(2))
    partial.chmod(0o777 & ~_umask())
    try:
        yield partial
        with suppress(FileNotFoundError):
            path.rename(old)
        partial.rename(path)
    finally:
        for folder in (partial, old):
            shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers(path: Path | str) -> None:
    """Remove the files and folders that killed writers of `path` left beside it. Only one process may write `path`."""
    path = Path(path)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.{'?' * RANDOM_CHARACTERS}"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def write_text_atomic(path: Path | str, text: str) -> None:
    with atomic_path(path) as partial:
        partial.write_text(text)


def write_json_atomic(path: Path | str, value: dict) -> None:
    """Write a value as JSON. Raises ValueError for a number that JSON does not have, such as nan."""
    write_text_atomic(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def find_files(folder: Path, pattern: str) -> list[Path]:
    """Return the paths below a folder that match, sorted, while other processes make and remove folders there.

    pattern: of Path.glob. Before Python 3.13, pathlib raises an error if a folder vanishes after it was listed.
    """
    while True:
        with suppress(FileNotFoundError):
            return sorted(folder.glob(pattern))


def read_each(folder: Path, pattern: str, read: Callable[[Path], T]) -> list[T]:
    """Call `read` with each path below a folder that matches, in order, and return the results.

    Other processes may rename and remove files there meanwhile. A path is left out if `read` raises FileNotFoundError.
    """
    results = []
    for path in find_files(folder, pattern):
        with suppress(FileNotFoundError):
            results.append(read(path))
    return results


def sha256_of_file(path: Path | str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def hold_lock(path: Path | str) -> Iterator[None]:
    """Hold a lock on a file while other processes and threads wait for it. The file itself is not removed."""
    # Imported here because `make` starts the environments' builder before anything is installed.
    from filelock import FileLock

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path):
        yield


def _umask() -> int:
    """Return the umask from /proc, because os.umask() can only read it by changing it for all threads."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022
