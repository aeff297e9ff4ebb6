"""Fetch a file of weights that torchvision publishes, and record where it is."""

import argparse
import sys
from pathlib import Path

from howmanygpus.files import sha256_of_file, write_json_atomic
from howmanygpus.prepare.acquire.acquisition import AcquisitionError
from howmanygpus.prepare.weights import find_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True, help="name of the file")
    parser.add_argument("--place", required=True, help="folder that has it, or address below which it is")
    parser.add_argument("--downloads", type=Path, required=True, help="folder in which fetched files are kept")
    parser.add_argument("--record", type=Path, required=True, help="record to write")
    arguments = parser.parse_args()
    try:
        path = find_file(arguments.name, arguments.place, arguments.downloads)
    except AcquisitionError as error:
        sys.exit(str(error))
    record = {"file": arguments.name, "sha256": sha256_of_file(path), "path": str(path)}
    write_json_atomic(arguments.record, record)


if __name__ == "__main__":
    main()
