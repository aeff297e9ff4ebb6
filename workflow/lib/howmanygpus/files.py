"""Files that appear whole or not at all, their hashes, and locks between processes. Every room uses these."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yield a new name beside `path`; what was written there takes the place of `path` when the block ends.

    If the block raises, `path` keeps what it had and the other name is removed. Each caller gets a name of its own,
    so that threads and processes that write the same path do not meet.
    """
    path = Path(path)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    # mkstemp lets nobody else read; a new file is to have the permissions of any other.
    partial = Path(name)
    partial.chmod(0o666 & ~_umask())
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path | str) -> Iterator[Path]:
    """Yield a new empty folder beside `path`, which replaces `path` when the block ends and is removed if it raises."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    partial.chmod(0o777 & ~_umask())
    try:
        yield partial
        shutil.rmtree(path, ignore_errors=True)
        partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_text_atomic(path: Path | str, text: str) -> None:
    with atomic_path(path) as partial:
        partial.write_text(text)


def write_json_atomic(path: Path | str, value: dict) -> None:
    """Raises ValueError for a number that JSON does not have, such as nan."""
    write_text_atomic(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def sha256_of_file(path: Path | str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def hold_lock(path: Path | str) -> Iterator[None]:
    """Hold a lock by the name of a file, which other processes and threads wait for; the file stays."""
    from filelock import FileLock  # `make` starts the environments' builder before anything is installed

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path):
        yield


def _umask() -> int:
    """The process's umask. Linux shows it in /proc without setting it for a moment, which other threads would see."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022
