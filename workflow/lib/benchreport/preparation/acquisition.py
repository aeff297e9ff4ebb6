"""What a data set needs before it can be prepared: files to fetch, archives to extract."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit


class AcquisitionError(Exception):
    """What cannot be fetched or extracted, and why."""


@dataclass(frozen=True)
class Download:
    """One file at a known address, with its published size and hash."""

    url: str
    sha256: str
    num_bytes: int

    @property
    def name(self) -> str:
        return Path(urlsplit(self.url).path).name


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
        """Text that changes with what is to be acquired."""
        downloads = [asdict(download) for download in self.downloads]
        archives = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in self.archives]
        return json.dumps([downloads, archives])
