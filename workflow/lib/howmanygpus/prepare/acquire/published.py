"""Fetches the files of weights that torchvision publishes, or takes them from a folder that has them."""

import re
from pathlib import Path

from howmanygpus.files import sha256_of_file
from howmanygpus.prepare.acquire.acquisition import AcquisitionError, Download
from howmanygpus.prepare.acquire.downloading import PAUSE_S, fetch

ADDRESS = "https://download.pytorch.org/models"
TIMEOUT_S = 20.0
"""Time without a byte after which a connection counts as broken. Meanwhile the whole call waits."""
NAME = re.compile(r".+-(?P<sha256>[0-9a-f]{8,})\.pth")
"""The names of torchvision's files contain the beginning of their SHA-256, which torch.hub compares too."""


def find_file(name: str, place: str, downloads: Path, pause_s: float = PAUSE_S) -> Path:
    """Return the path of a published file after comparing its checksum.

    place: folder that has the file, or address below which it is. downloads: folder in which fetched files are kept,
    and in which a user may put the file. Raises AcquisitionError, which says what to do.
    """
    match = NAME.fullmatch(name)
    assert match, f"{name} has no checksum"
    is_address = place.startswith(("http://", "https://"))
    download = Download(f"{place.rstrip('/')}/{name}", f"sha256:{match['sha256']}")
    kept = downloads / download.folder / name
    try:
        if is_address or _is_right(kept, match["sha256"]):
            return fetch(download, kept.parent, pause_s, TIMEOUT_S)
        return _take(Path(place) / name, match["sha256"])
    except AcquisitionError as error:
        raise AcquisitionError(
            f"{error}. Fetch {ADDRESS}/{name} elsewhere and put it at {kept} (its SHA-256 begins with "
            f"{match['sha256']}), or name a folder that has it, or a mirror, as published_weights in the machine file"
        ) from None


def _take(path: Path, checksum: str) -> Path:
    if not path.is_file():
        raise AcquisitionError(f"{path}: the file is not there")
    if not _is_right(path, checksum):
        raise AcquisitionError(f"{path}: the SHA-256 is {sha256_of_file(path)}, and does not begin with {checksum}")
    return path


def _is_right(path: Path, checksum: str) -> bool:
    return path.is_file() and sha256_of_file(path).startswith(checksum)
