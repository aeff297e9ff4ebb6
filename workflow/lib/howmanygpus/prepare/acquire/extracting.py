"""
Fetch archives and extract them. They may be hostile: only plain files below one folder are extracted, with limits on
their number and their bytes.

`tarfile` (with its filter `data`) and `zipfile` write the files. This module limits what they read and write, and
refuses what they would silently rename, overwrite or extract as a link.
"""

import bz2
import gzip
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, cast

from howmanygpus.files import atomic_folder, remove_leftovers
from howmanygpus.prepare.acquire.acquisition import Acquisition, AcquisitionError
from howmanygpus.prepare.acquire.downloading import fetch

BLOCK_BYTES = 2**20
MAX_MEMBERS = 2_000_000
HEADER_BYTES = 2**24
"""Allowed length of a tar archive beyond twice the limit on its files: headers and padding."""
OPENERS: dict[bytes, Callable] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\0": lzma.open, b"BZh": bz2.open}
"""Openers of compressed tar archives, by the first bytes of the archive, since an address may not end in a suffix."""
ZIP_MAGIC = b"PK\x03\x04"
LIBRARY_ERRORS = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
DAMAGED = (*LIBRARY_ERRORS, EOFError, NotImplementedError, OSError, RecursionError)
"""Exceptions that damaged archives cause. zipfile raises NotImplementedError if a damaged header names an unknown
compression, and tarfile recurses from each extended header to the next."""


def acquire(acquisition: Acquisition, downloads: Path, folder: Path) -> dict:
    """Fetch archives into `downloads`, where they stay, extract all into `folder`, and return a record.

    Raises AcquisitionError.
    """
    fetched = [fetch(download, downloads / download.folder) for download in acquisition.downloads]
    archives = [*fetched, *acquisition.archives]
    num_files, num_bytes = extract_all(archives, folder, acquisition.most_bytes)
    return {"archives": [path.name for path in archives], "files": num_files, "bytes": num_bytes}


def extract_all(archives: list[Path], folder: Path, most_bytes: int) -> tuple[int, int]:
    """Extract into `folder`, which appears or replaces an older one as a whole; return the number of files and bytes.

    most_bytes: limit for all files together. Raises AcquisitionError naming the archive and the problem.
    """
    limit = _Limit(most_bytes)
    remove_leftovers(folder)
    with atomic_folder(folder) as partial:
        for archive in archives:
            print(f"extracting {archive}", flush=True)
            _extract(archive, partial, limit)
    return limit.files, limit.bytes


class _RefusedError(Exception):
    """An archive has something that is not extracted."""


class _Limit:
    """Counts extracted members, and refuses those that exceed the limits or do not belong in the folder."""

    def __init__(self, most_bytes: int):
        self.most_bytes, self.members, self.files, self.bytes = most_bytes, 0, 0, 0

    def admit(self, folder: Path, name: str, num_bytes: int | None) -> None:
        """Count a member before it is extracted. num_bytes: its size, None for a folder."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
            raise _RefusedError(f"it holds {name!r}, which is not below its folder")
        self.members += 1
        if self.members > MAX_MEMBERS:
            raise _RefusedError(f"it holds more than {MAX_MEMBERS} files and folders")
        target = folder / path
        if num_bytes is None:
            if target.exists() and not target.is_dir():
                raise _RefusedError(f"it holds a file and a folder of one name ({name!r})")
            return
        if num_bytes < 0:
            raise _RefusedError(f"the size of {name!r} is negative")
        if os.path.lexists(target):
            raise _RefusedError(f"it holds {name!r} twice, or an earlier archive holds it too")
        self.files += 1
        self.bytes += num_bytes
        if self.bytes > self.most_bytes:
            raise _RefusedError(f"it holds more than {self.most_bytes} bytes")


def _extract(archive: Path, folder: Path, limit: _Limit) -> None:
    try:
        with open(archive, "rb") as file:
            start = file.read(8)
        if start.startswith(ZIP_MAGIC):
            _extract_zip(archive, folder, limit)
        else:
            opener = next((opener for magic, opener in OPENERS.items() if start.startswith(magic)), open)
            _extract_tar(archive, opener, folder, limit)
    except _RefusedError as error:
        raise AcquisitionError(f"{archive}: {error}") from None
    except (FileExistsError, NotADirectoryError) as error:
        raise AcquisitionError(f"{archive}: it holds a file and a folder of one name ({error.filename!r})") from None
    except DAMAGED as error:
        kinds = "zip, and tar that is plain or compressed by gzip, xz or bzip2"
        raise AcquisitionError(f"{archive}: it cannot be extracted ({error}); supported are {kinds}") from None


def _extract_tar(archive: Path, opener: Callable, folder: Path, limit: _Limit) -> None:
    """Extract a tar archive. opener: opens the archive and decompresses it."""
    with opener(archive, "rb") as stream, _open_tar(stream, limit) as tar:
        for member in tar:
            if not member.isdir() and (not member.isreg() or member.issparse()):
                raise _RefusedError(f"it holds {member.name!r}, which is no plain file but a link or a device")
            limit.admit(folder, member.name, None if member.isdir() else member.size)
            tar.extract(member, folder, set_attrs=False, filter="data")
            # tarfile would keep all members in memory.
            tar.members.clear()  # type: ignore[attr-defined]


def _open_tar(stream: IO[bytes], limit: _Limit) -> tarfile.TarFile:
    return tarfile.open(fileobj=cast(IO[bytes], _Bounded(stream, limit)), mode="r:")


def _extract_zip(archive: Path, folder: Path, limit: _Limit) -> None:
    """Extract a zip archive. zipfile writes no more bytes of a member than its size, and compares its checksum."""
    with zipfile.ZipFile(archive) as file:
        for member in file.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if not member.is_dir() and (kind not in (0, stat.S_IFREG) or member.flag_bits & 1):
                raise _RefusedError(f"it holds {member.filename!r}, which is a link, a device or encrypted")
            limit.admit(folder, member.filename, None if member.is_dir() else member.file_size)
            file.extract(member, folder)


class _Bounded:
    """A stream with limits for tarfile, which by itself reads headers and decompresses data of any length."""

    def __init__(self, stream: IO[bytes], limit: _Limit):
        self._stream = stream
        self._most = 2 * limit.most_bytes + HEADER_BYTES

    def read(self, size: int) -> bytes:
        # A negative size would read everything at once.
        if not 0 <= size <= 2 * BLOCK_BYTES:
            raise _RefusedError(f"one of its headers is {size} bytes long")
        self._check(self.tell() + size)
        return self._stream.read(size)

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_SET:
            self._check(position)
        return self._stream.seek(position, whence)

    def _check(self, position: int) -> None:
        if position > self._most:
            raise _RefusedError("it is longer than all files of the data set")
