"""Fetch a file of known checksum. Broken downloads are resumed and retried; the file appears whole or not at all."""

import functools
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from pathlib import Path

from howmanygpus.files import hold_lock
from howmanygpus.prepare.acquire.acquisition import AcquisitionError, Download

ATTEMPTS = 6
PAUSE_S = 2.0
"""Pause before the second attempt; it doubles with each further attempt."""
TIMEOUT_S = 60.0
"""Time without a byte after which a connection counts as broken."""
BLOCK_BYTES = 2**20
PROGRESS_BYTES = 2**24
MAX_BYTES = 2**34
"""Limit for a file whose size is not published."""
PASSING = {408, 425, 429, 500, 502, 503, 504}
"""HTTP statuses after which another attempt may succeed."""


class _BrokenOffError(Exception):
    """An attempt failed, but another one may continue it."""


def fetch(download: Download, folder: Path, pause_s: float = PAUSE_S, timeout_s: float = TIMEOUT_S) -> Path:
    """Return the path of the file in `folder`, complete and as published. Raises AcquisitionError.

    What was received before a connection broke stays in `.NAME.part`, from which the next call continues. If two
    processes want the same file, one waits for the other.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder / f".{download.name}.lock"):
        return _fetch(download, folder, pause_s, timeout_s)


def _fetch(download: Download, folder: Path, pause_s: float, timeout_s: float) -> Path:
    path, part = folder / download.name, folder / f".{download.name}.part"
    if path.exists():
        if _checksum(download, path) == download.checksum:
            return path
        path.unlink()
    problem = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            print(f"{download.shown}: {problem}; attempt {attempt + 1} of {ATTEMPTS}", flush=True)
            time.sleep(pause_s * 2 ** (attempt - 1))
        resumed = part.exists()
        try:
            _continue(download, part, timeout_s)
            _check(download, part, resumed)
            os.replace(part, path)
            return path
        except _BrokenOffError as error:
            problem = str(error)
    raise AcquisitionError(f"{download.shown}: {problem}, {ATTEMPTS} times")


def _continue(download: Download, part: Path, timeout_s: float) -> None:
    """Append the missing bytes to `part`."""
    have = part.stat().st_size if part.exists() else 0
    if have > _most_bytes(download):
        part.unlink()
        have = 0
    if have == download.num_bytes:
        return
    headers = {"User-Agent": "howmanygpus", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        request = urllib.request.Request(download.url, headers=headers)
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            start = _find_start(download, response, part, have)
            with open(part, "r+b" if start else "wb") as file:
                file.seek(start)
                _copy(download, response, file, start)
    except urllib.error.HTTPError as error:
        if error.code == 416:
            part.unlink()
        if error.code == 416 or error.code in PASSING:
            raise _BrokenOffError(f"the server answers {error.code} {error.reason}") from None
        meaning = "requires a login" if error.code in (401, 403) else "has no such file"
        raise AcquisitionError(f"{download.shown}: the server {meaning} ({error.code} {error.reason})") from None
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(f"the connection broke off ({error or type(error).__name__})") from None


def _find_start(download: Download, response, part: Path, have: int) -> int:
    """Return the position of the first byte that the server sends; raise if it does not send what was requested."""
    length = response.headers.get("Content-Length")
    if response.status == 206:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if found and int(found[1]) == have and (found[2] == "*" or download.num_bytes in (None, int(found[2]))):
            return have
        part.unlink()
        raise _BrokenOffError("the server sent another part of the file than was requested")
    kind = response.headers.get("Content-Type", "unknown type")
    is_page = download.num_bytes is None and kind.startswith("text/html")
    if is_page or (length is not None and download.num_bytes not in (None, int(length))):
        expected = download.num_bytes or "an archive"
        doubt = f", or num_bytes is wrong; correct {expected}" if download.num_bytes else ""
        raise AcquisitionError(
            f"{download.shown}: the server offers {length} bytes of {kind}, not {expected}; "
            f"the file was moved or changed, or requires a login{doubt}"
        )
    return 0


def _copy(download: Download, response, file, start: int) -> None:
    received, reported = start, start
    length = response.headers.get("Content-Length")
    expected = download.num_bytes or (start + int(length) if length else None)
    of = f" of {expected / 2**20:.0f}" if expected else ""
    while block := response.read(BLOCK_BYTES):
        received += len(block)
        if received > _most_bytes(download):
            file.truncate(0)
            problem = f"the server sends more than the file's {_most_bytes(download)} bytes"
            remedy = "; the file was changed, or num_bytes is wrong" if download.num_bytes else ""
            raise AcquisitionError(f"{download.shown}: {problem}{remedy}")
        file.write(block)
        if received - reported >= PROGRESS_BYTES:
            reported = received
            print(f"{download.name}: {received / 2**20:.0f}{of} MiB", flush=True)
    if expected and received < expected:
        raise _BrokenOffError(f"the connection ended after {received} of {expected} bytes")


def _most_bytes(download: Download) -> int:
    return download.num_bytes or MAX_BYTES


def _check(download: Download, part: Path, resumed: bool) -> None:
    """Remove the received bytes and raise if their checksum is wrong; a resumed download may succeed from the start."""
    found = _checksum(download, part)
    if found != download.checksum:
        part.unlink()
        problem = f"the checksum is {found}, not the published {download.checksum}"
        raise _BrokenOffError(problem) if resumed else AcquisitionError(f"{download.shown}: {problem}")


def _checksum(download: Download, path: Path) -> str:
    """Return the checksum of a file, of the published kind and with as many digits."""
    kind, _, published = download.checksum.partition(":")
    # On hosts in FIPS mode MD5 is refused unless it is declared not to serve security.
    digest = functools.partial(hashlib.new, kind, usedforsecurity=False)
    with open(path, "rb") as file:
        return f"{kind}:{hashlib.file_digest(file, digest).hexdigest()[: len(published)]}"
