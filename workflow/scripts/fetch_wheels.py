"""Fetch every wheel of an environment on a machine with a network, for jobs without one."""

import argparse
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.site.environments.wheels import fetch_wheels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--pins", type=Path, nargs="+", required=True, help="requirements files")
    parser.add_argument("--tools", type=Path, nargs="*", default=[], help="pins of what builds Horovod")
    parser.add_argument("--source", type=Path, nargs="?", help="pin and hash of Horovod's source")
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write: where the wheels are")
    arguments = parser.parse_args()
    record = fetch_wheels(arguments.name, arguments.pins, arguments.tools, arguments.source)
    write_json_atomic(arguments.record, record)


if __name__ == "__main__":
    main()
