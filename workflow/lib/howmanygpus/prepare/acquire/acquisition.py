"""Describe the files to fetch and archives to extract before a data set can be prepared."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from howmanygpus.base.secrets import hide_in_addresses
from howmanygpus.prepare.sources import OptionError

CHECKSUMS = {"sha256": 64, "md5": 32}
"""Number of hexadecimal digits of each kind of checksum."""
EXPANSION = 10
"""Limit on the size of a user's data set, relative to its archives. PNG and JPEG hardly shrink in an archive."""
ENTRY = "write {url: ..., sha256: ..., num_bytes: ...} for each archive"


class AcquisitionError(Exception):
    """A file cannot be fetched or extracted; the message says which and why."""


@dataclass(frozen=True)
class Download:
    """One file at a known address.

    checksum: its kind and the published digits, such as `sha256:c4a38c...`. num_bytes: None if the size is not
    published.
    """

    url: str
    checksum: str
    num_bytes: int | None = None

    @property
    def shown(self) -> str:
        """The address as messages show it, without credentials."""
        return hide_in_addresses(self.url)

    @property
    def name(self) -> str:
        return Path(urlsplit(self.url).path).name or "archive"

    @property
    def folder(self) -> str:
        """Name of a folder for this content, so that files of the same name do not collide."""
        return self.checksum.partition(":")[2][:12]


@dataclass(frozen=True)
class Acquisition:
    """Archives to fetch, and archives on this machine, all to be extracted.

    most_bytes: limit on the extracted bytes of all archives together. by_hand: what a user can do if this fails.
    """

    most_bytes: int
    by_hand: str
    downloads: tuple[Download, ...] = ()
    archives: tuple[Path, ...] = ()

    def describe(self) -> str:
        """Return a text that changes with the content to acquire, but not with the address of the files."""
        downloads = [download.checksum for download in self.downloads]
        archives = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in self.archives]
        return json.dumps([downloads, archives])


def read_downloads(given) -> tuple[Download, ...]:
    """Read the option `downloads`. Raises OptionError."""
    if not isinstance(given, list) or not given:
        raise OptionError("downloads", given, "is not a list of archives", ENTRY)
    return tuple(_read_download(entry) for entry in given)


def acquire_downloads(folder: str | None = None, downloads: list | None = None, **options) -> Acquisition | None:
    """Return the acquisition for either `folder` or `downloads`; None for `folder`. Raises OptionError.

    options: other options of a source, which change nothing of what is fetched.
    """
    if (folder is None) == (downloads is None):
        problem = "is given together with downloads" if folder else "is not given, nor are downloads"
        raise OptionError("folder", folder, problem, "give the folder of the images, or the archives to fetch")
    if downloads is None:
        return None
    archives = read_downloads(downloads)
    by_hand = "fetch and extract the archives, and give their folder as the option `folder` instead of `downloads`"
    return Acquisition(EXPANSION * sum(archive.num_bytes or 0 for archive in archives), by_hand, archives)


def _read_download(entry) -> Download:
    if not isinstance(entry, dict):
        raise OptionError("downloads", entry, "is not an archive", ENTRY)
    kinds = [kind for kind in CHECKSUMS if kind in entry]
    if len(kinds) != 1 or set(entry) != {"url", "num_bytes", *kinds}:
        raise OptionError("downloads", entry, f"has the keys {', '.join(map(str, entry))}", ENTRY + ", or md5")
    kind, checksum = kinds[0], str(entry[kinds[0]]).lower()
    if not re.fullmatch(rf"[0-9a-f]{{{CHECKSUMS[kind]}}}", checksum):
        raise OptionError(
            "downloads", entry[kind], f"is not a {kind}", f"write its {CHECKSUMS[kind]} hexadecimal digits"
        )
    url, num_bytes = entry["url"], entry["num_bytes"]
    if not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise OptionError("downloads", url, "is not an address", "write one that begins with http:// or https://")
    if not isinstance(num_bytes, int) or isinstance(num_bytes, bool) or num_bytes < 1:
        raise OptionError("downloads", num_bytes, "is not the size of a file", "write the number of its bytes")
    return Download(url, f"{kind}:{checksum}", num_bytes)
