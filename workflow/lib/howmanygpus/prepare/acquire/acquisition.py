"""What a data set needs before it can be prepared: files to fetch, archives to extract."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from howmanygpus.prepare.sources import OptionError

CHECKSUMS = {"sha256": 64, "md5": 32}
"""Hexadecimal digits of each."""
EXPANSION = 10
"""How many times as large as its archives a user's data set may be; PNG and JPEG hardly shrink in one."""
ENTRY = "write {url: ..., sha256: ..., num_bytes: ...} for each archive"


class AcquisitionError(Exception):
    """What cannot be fetched or extracted, and why."""


@dataclass(frozen=True)
class Download:
    """One file at a known address.

    checksum: its kind and its published value, as in `sha256:6d958b...`. num_bytes: None where it is not published.
    """

    url: str
    checksum: str
    num_bytes: int | None = None

    @property
    def name(self) -> str:
        return Path(urlsplit(self.url).path).name or "archive"

    @property
    def folder(self) -> str:
        """Of all downloads, the one for this content: files of one name do not meet."""
        return self.checksum.partition(":")[2][:12]


@dataclass(frozen=True)
class Acquisition:
    """Archives to fetch and to extract, archives at hand to extract, and what a person does where that fails.

    most_bytes: what all archives may extract to, together.
    """

    most_bytes: int
    by_hand: str
    downloads: tuple[Download, ...] = ()
    archives: tuple[Path, ...] = ()

    def describe(self) -> str:
        """Text that changes with what is to be acquired, and not with where from."""
        downloads = [download.checksum for download in self.downloads]
        archives = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in self.archives]
        return json.dumps([downloads, archives])


def read_downloads(given) -> tuple[Download, ...]:
    """The archives that the option `downloads` names. Raises OptionError."""
    if not isinstance(given, list) or not given:
        raise OptionError("downloads", given, "is no list of archives", ENTRY)
    return tuple(_read_download(entry) for entry in given)


def acquire_downloads(folder: str | None, downloads: list | None) -> Acquisition | None:
    """For a data set whose images are in a folder or fetched: None where they are in the folder. Raises OptionError."""
    if (folder is None) == (downloads is None):
        problem = "is named beside downloads" if folder else "is not named, nor are downloads"
        raise OptionError("folder", folder, problem, "name the folder of the images, or where they are fetched from")
    if downloads is None:
        return None
    archives = read_downloads(downloads)
    by_hand = "fetch and extract them, and name that folder by the option `folder` in the place of `downloads`"
    return Acquisition(EXPANSION * sum(archive.num_bytes for archive in archives), by_hand, archives)


def _read_download(entry) -> Download:
    if not isinstance(entry, dict):
        raise OptionError("downloads", entry, "is no archive", ENTRY)
    kinds = [kind for kind in CHECKSUMS if kind in entry]
    if len(kinds) != 1 or set(entry) != {"url", "num_bytes", *kinds}:
        raise OptionError("downloads", entry, f"has the keys {', '.join(map(str, entry))}", ENTRY + ", or md5")
    kind, checksum = kinds[0], str(entry[kinds[0]]).lower()
    if not re.fullmatch(rf"[0-9a-f]{{{CHECKSUMS[kind]}}}", checksum):
        raise OptionError("downloads", entry[kind], f"is no {kind}", f"write its {CHECKSUMS[kind]} hexadecimal digits")
    url, num_bytes = entry["url"], entry["num_bytes"]
    if not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise OptionError("downloads", url, "is no address", "write one of http or https")
    if not isinstance(num_bytes, int) or isinstance(num_bytes, bool) or num_bytes < 1:
        raise OptionError("downloads", num_bytes, "is no size of a file", "write the number of its bytes")
    return Download(url, f"{kind}:{checksum}", num_bytes)
