"""Fetch and extract the files that a data set needs before it can be prepared."""

from pathlib import Path

from howmanygpus.prepare.acquire.acquisition import Acquisition
from howmanygpus.prepare.acquire.downloading import fetch
from howmanygpus.prepare.acquire.extracting import extract_all


def acquire(acquisition: Acquisition, downloads: Path, folder: Path) -> dict:
    """Fetch archives into `downloads`, where they stay, extract all into `folder`, and return a record.

    Raises AcquisitionError.
    """
    fetched = [fetch(download, downloads / download.folder) for download in acquisition.downloads]
    archives = [*fetched, *acquisition.archives]
    num_files, num_bytes = extract_all(archives, folder, acquisition.most_bytes)
    return {"archives": [path.name for path in archives], "files": num_files, "bytes": num_bytes}
