"""Merge the prepared shards of a data set into arrays, with a manifest and a table of the omitted files."""

import argparse
import json
import sys
from pathlib import Path

from howmanygpus.prepare.listing import read_task
from howmanygpus.prepare.merging import merge_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="module of howmanygpus/prepare/sources/")
    parser.add_argument("--options", type=json.loads, default={}, help="options of the source, as JSON")
    parser.add_argument("--acquired", default="", help="folder of the files that were fetched or extracted")
    parser.add_argument("--fingerprint", required=True, help="fingerprint of the listing when it was planned")
    parser.add_argument("--shards", type=Path, required=True, help="folder of the shards")
    parser.add_argument("--folder", type=Path, required=True, help="folder to write")
    arguments = parser.parse_args()
    task = read_task(arguments.source, arguments.options, arguments.acquired)
    try:
        task.check_fingerprint(arguments.fingerprint)
        merge_folder(task, arguments.shards, arguments.folder)
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
