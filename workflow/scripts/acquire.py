"""Fetch and extract what a data set is made of."""

import argparse
import json
import sys
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.prepare.acquire.acquisition import AcquisitionError
from howmanygpus.prepare.acquire.downloading import fetch
from howmanygpus.prepare.acquire.extracting import extract_all
from howmanygpus.prepare.listing import find_acquisition


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="module of howmanygpus/prepare/sources/")
    parser.add_argument("--options", type=json.loads, default={}, help="its options, as JSON")
    parser.add_argument(
        "--downloads", type=Path, required=True, help="folder of fetched archives, kept for another time"
    )
    parser.add_argument("--folder", type=Path, required=True, help="folder to extract to")
    parser.add_argument("--record", type=Path, required=True, help="file to write, last")
    arguments = parser.parse_args()
    acquisition = find_acquisition(arguments.source, arguments.options)
    try:
        fetched = [fetch(download, arguments.downloads / download.folder) for download in acquisition.downloads]
        archives = [*fetched, *acquisition.archives]
        num_files, num_bytes = extract_all(archives, arguments.folder, acquisition.most_bytes)
    except AcquisitionError as error:
        sys.exit(f"{error}\nBy hand: {acquisition.by_hand}")
    record = {"archives": [path.name for path in archives], "files": num_files, "bytes": num_bytes}
    write_json_atomic(arguments.record, record)


if __name__ == "__main__":
    main()
