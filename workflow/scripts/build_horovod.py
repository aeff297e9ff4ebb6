"""Build Horovod's wheel for one framework, or find it in the cache, and record where it is."""

import argparse
import json
import os
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.site.environments.build import use_fetched
from howmanygpus.site.environments.horovod import SWITCHES, build_horovod


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True, help="record of the environment that has the framework")
    parser.add_argument("--family", choices=SWITCHES, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--tools", type=Path, nargs="+", required=True, help="pins of what builds")
    parser.add_argument("--source", type=Path, required=True, help="pin and hash of the source")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers at a time")
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write: where the wheel is")
    parser.add_argument("--wheels", type=Path, nargs="?", help="record of fetched tools and source, to take no others")
    arguments = parser.parse_args()
    use_fetched(arguments.wheels)
    base = json.loads(arguments.base.read_text())
    ingredients = (base, arguments.tools, arguments.source)
    record = build_horovod(*ingredients, arguments.family, arguments.device, arguments.jobs)
    write_json_atomic(arguments.record, record)


if __name__ == "__main__":
    main()
