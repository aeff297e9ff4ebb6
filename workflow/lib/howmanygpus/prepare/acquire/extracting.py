"""Extract archives that may be hostile: plain files below one folder, no more bytes than expected, all or nothing."""

import bz2
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from howmanygpus.prepare.acquire.acquisition import AcquisitionError

BLOCK_BYTES = 2**20
MOST_MEMBERS = 2_000_000
OPENERS = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\0": lzma.open, b"BZh": bz2.open}
"""Of compressed tar archives, by their first bytes: addresses need not end in a name that tells."""
ZIP_MAGIC = b"PK\x03\x04"
DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, OSError)


def extract_all(archives: list[Path], folder: Path, most_bytes: int) -> tuple[int, int]:
    """Extract into `folder`, which appears whole in the place of an older one; the number of files and bytes.

    most_bytes: of all files together. Raises AcquisitionError, naming the archive and what is wrong with it.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        limit = _Limit(most_bytes)
        for archive in archives:
            print(f"extracting {archive}", flush=True)
            _extract(archive, partial, limit)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return limit.files, limit.bytes


class _Limit:
    """How much has been extracted, and how much may be."""

    def __init__(self, most_bytes: int):
        self.most_bytes, self.members, self.files, self.bytes = most_bytes, 0, 0, 0

    def count_member(self) -> None:
        self.members += 1
        if self.members > MOST_MEMBERS:
            raise _RefusedError(f"it holds more than {MOST_MEMBERS} files and folders")

    def count_bytes(self, num_bytes: int) -> None:
        self.bytes += num_bytes
        if self.bytes > self.most_bytes:
            raise _RefusedError(f"it holds more than {self.most_bytes} bytes")


class _RefusedError(Exception):
    """Something in an archive that is not extracted."""


def _extract(archive: Path, folder: Path, limit: _Limit) -> None:
    try:
        with open(archive, "rb") as file:
            start = file.read(8)
        if start.startswith(ZIP_MAGIC):
            members = _zip_members(archive)
        else:
            opener = next((opener for magic, opener in OPENERS.items() if start.startswith(magic)), open)
            members = _tar_members(archive, opener, limit)
        for name, content in members:
            target = folder / _safe_path(name)
            limit.count_member()
            if content is None:
                target.mkdir(parents=True, exist_ok=True)
                continue
            limit.files += 1
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "xb") as file:
                while block := content.read(BLOCK_BYTES):
                    limit.count_bytes(len(block))
                    file.write(block)
    except _RefusedError as error:
        raise AcquisitionError(f"{archive}: {error}") from None
    except FileExistsError as error:
        raise AcquisitionError(f"{archive}: it holds {error.filename!r} twice, or in an archive before") from None
    except NotADirectoryError as error:
        raise AcquisitionError(f"{archive}: it holds a file and a folder of one name ({error.filename!r})") from None
    except DAMAGED as error:
        kinds = "zip, and tar as it is or by gzip, xz or bzip2"
        raise AcquisitionError(f"{archive}: it cannot be extracted ({error}); known are {kinds}") from None


def _safe_path(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise _RefusedError(f"it holds {name!r}, which is not below its folder")
    return path


def _tar_members(archive: Path, opener, limit: _Limit) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Name and content of each file; a folder has no content. opener: what decompresses the archive."""
    with opener(archive, "rb") as stream, tarfile.open(fileobj=_Bounded(stream, limit), mode="r:") as tar:
        for member in tar:
            if member.isdir():
                yield member.name, None
            elif member.isreg() and not member.issparse():
                yield member.name, tar.extractfile(member)
            else:
                raise _RefusedError(f"it holds {member.name!r}, which is no plain file but a link or a device")
            tar.members.clear()


def _zip_members(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    with zipfile.ZipFile(archive) as file:
        for member in file.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if member.is_dir():
                yield member.filename, None
            elif kind not in (0, stat.S_IFREG) or member.flag_bits & 1:
                raise _RefusedError(f"it holds {member.filename!r}, which is a link, a device or encrypted")
            else:
                with file.open(member) as content:
                    yield member.filename, content


class _Bounded:
    """A stream for tarfile, which would read as much at a time as a header says, and decompress without end."""

    def __init__(self, stream: IO[bytes], limit: _Limit):
        self._stream = stream
        # Headers and padding make a small share of an honest archive.
        self._most = 2 * limit.most_bytes + 2**24

    def read(self, size: int) -> bytes:
        if size > 2 * BLOCK_BYTES:
            raise _RefusedError(f"one of its headers is {size} bytes long")
        return self._stream.read(size)

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_SET and position > self._most:
            raise _RefusedError("it is longer than all files of the data set")
        return self._stream.seek(position, whence)
