"""Fetch and extract the files of a data set."""

import argparse
import json
import sys
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.prepare.acquire.acquisition import AcquisitionError
from howmanygpus.prepare.acquire.extracting import acquire
from howmanygpus.prepare.listing import resolve_acquisition


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="module of howmanygpus/prepare/sources/")
    parser.add_argument("--options", type=json.loads, default={}, help="options of the source, as JSON")
    parser.add_argument("--downloads", type=Path, required=True, help="folder in which fetched archives are kept")
    parser.add_argument("--folder", type=Path, required=True, help="folder to extract to")
    parser.add_argument("--record", type=Path, required=True, help="record to write when all files are extracted")
    arguments = parser.parse_args()
    acquisition = resolve_acquisition(arguments.source, arguments.options)
    try:
        record = acquire(acquisition, arguments.downloads, arguments.folder)
    except AcquisitionError as error:
        sys.exit(f"{error}\nBy hand: {acquisition.by_hand}")
    write_json_atomic(arguments.record, record)


if __name__ == "__main__":
    main()
