"""Merge the prepared shards of a data set into arrays, with a manifest and the list of files left out."""

import argparse
import json
from pathlib import Path

from howmanygpus.prepare.listing import read_task
from howmanygpus.prepare.merging import merge_shards


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="module of howmanygpus/prepare/sources/")
    parser.add_argument("--options", type=json.loads, default={}, help="its options, as JSON")
    parser.add_argument("--acquired", default="", help="folder of what was fetched or extracted for it")
    parser.add_argument("--fingerprint", required=True, help="what the listing was when it was planned")
    parser.add_argument("--shards", type=Path, required=True, help="folder of the shards")
    parser.add_argument("--folder", type=Path, required=True, help="folder to write")
    arguments = parser.parse_args()
    task = read_task(arguments.source, arguments.options, arguments.acquired)
    if task.fingerprint_listing() != arguments.fingerprint:
        raise SystemExit(f"{task.listing.folder} was changed since the call began; run the workflow again")
    names = [f"shard{shard}of{task.num_shards}" for shard in range(task.num_shards)]
    images, records = ([arguments.shards / f"{name}.{suffix}" for name in names] for suffix in ("pixels", "tsv"))
    try:
        merge_shards(task, images, records, arguments.folder)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    for path in sorted(set(arguments.shards.iterdir()) - {*images, *records}):
        print(f"removing {path}, which is of another number of shards")
        path.unlink()


if __name__ == "__main__":
    main()
