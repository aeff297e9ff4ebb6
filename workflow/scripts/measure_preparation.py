"""Measure the speed of preparing a data set and the loss of quality, on a sample of its images."""

import argparse
import json
from pathlib import Path

from howmanygpus.prepare.listing import read_task
from howmanygpus.prepare.measuring import measure_preparation
from howmanygpus.report.files import write_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="module of howmanygpus/prepare/sources/")
    parser.add_argument("--options", type=json.loads, default={}, help="options of the source, as JSON")
    parser.add_argument("--acquired", default="", help="folder of the files that were fetched or extracted")
    parser.add_argument("--num-images", type=int, required=True, help="size of the sample")
    parser.add_argument("--pillow-simd", type=Path, nargs="?", help="record of its environment, if that is there")
    parser.add_argument("--table", type=Path, required=True, help="table to write")
    arguments = parser.parse_args()
    task = read_task(arguments.source, arguments.options, arguments.acquired)
    python = json.loads(arguments.pillow_simd.read_text())["python"] if arguments.pillow_simd else None
    write_table(arguments.table, measure_preparation(task, arguments.num_images, python))


if __name__ == "__main__":
    main()
