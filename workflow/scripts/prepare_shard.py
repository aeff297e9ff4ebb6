"""Decode and resize the image files of one shard of a data set."""

import argparse
import ctypes
import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from howmanygpus.base.environment import build_surroundings
from howmanygpus.prepare.listing import read_task
from howmanygpus.prepare.shards import prepare_shard

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt, from glibc's malloc.h."""
MOST_KEPT, LARGEST_KEPT = 2**31 - 1, 2**25
"""Bytes of freed memory that the process keeps, and of the largest block among them; glibc allows no more."""


def keep_freed_memory() -> None:
    """Keep what one image frees for the next one, which the kernel would have to fill with zeros otherwise.

    glibc alone has this function of malloc.
    """
    with suppress(OSError, AttributeError):
        malloc = ctypes.CDLL(None)
        malloc.mallopt(M_TRIM_THRESHOLD, MOST_KEPT)
        malloc.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)


def switch_environment(record: Path) -> None:
    """Start this script again in another environment, without the option that requests the environment."""
    python, place = json.loads(record.read_text())["python"], sys.argv.index("--environment")
    os.execve(python, [python, *sys.argv[:place], *sys.argv[place + 2 :]], build_surroundings(os.environ))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="module of howmanygpus/prepare/sources/")
    parser.add_argument("--options", type=json.loads, default={}, help="options of the source, as JSON")
    parser.add_argument("--acquired", default="", help="folder of the files that were fetched or extracted")
    parser.add_argument("--shard", type=int, required=True, help="number of the shard, from 0")
    parser.add_argument("--fingerprint", required=True, help="fingerprint of the shard when it was planned")
    parser.add_argument("--environment", type=Path, nargs="?", help="record of the environment to use")
    parser.add_argument("--images", type=Path, required=True, help="file to write the pixels to")
    parser.add_argument("--records", type=Path, required=True, help="table to write, one line per file")
    arguments = parser.parse_args()
    if arguments.environment:
        switch_environment(arguments.environment)
    keep_freed_memory()
    task = read_task(arguments.source, arguments.options, arguments.acquired)
    try:
        task.check_fingerprint(arguments.fingerprint, arguments.shard)
    except ValueError as error:
        sys.exit(str(error))
    prepare_shard(task, arguments.shard, arguments.images, arguments.records)


if __name__ == "__main__":
    main()
