"""Write a data set that does not consist of image files, or a random one, as arrays with labels and a manifest."""

import argparse
import json
from pathlib import Path

from howmanygpus.prepare.arrays import prepare_arrays, prepare_random


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="module of howmanygpus/prepare/sources/")
    parser.add_argument("--options", type=json.loads, default={}, help="options of the source, as JSON")
    parser.add_argument("--acquired", default="", help="folder of the files that were fetched or extracted")
    parser.add_argument("--random", action="store_true", help="write random images of the same shape and number")
    parser.add_argument("--folder", type=Path, required=True, help="folder to write")
    arguments = parser.parse_args()
    if arguments.random:
        prepare_random(arguments.source, arguments.options, arguments.folder)
    else:
        prepare_arrays(arguments.source, arguments.options, arguments.acquired, arguments.folder)


if __name__ == "__main__":
    main()
