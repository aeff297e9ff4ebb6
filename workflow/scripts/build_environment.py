"""Build a virtual environment in the cache, or find it there. Then record the path of its Python, or link to it."""

import argparse
import json
import sys
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.environments.build import build_environment, use_fetched
from howmanygpus.site.environments.existing import link, wrap_interpreter
from howmanygpus.site.environments.pins import list_pin_files, resolve_horovod_base


def find_pins(name: str) -> list[Path]:
    """Return the requirements files of an environment that needs no more than them. Raises SystemExit for others."""
    known = {environment for framework in FRAMEWORKS.values() for environment in framework.environments.values()}
    if resolve_horovod_base(name) or name not in known:
        why = "needs a wheel of Horovod, which the workflow builds" if name in known else "is no environment"
        others = sorted(each for each in known if not resolve_horovod_base(each))
        sys.exit(f"--name: {name!r} {why}; choose from {', '.join(others)}")
    return list_pin_files(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--pins", type=Path, nargs="+", help="requirements files, if not those in envs/ of this name")
    parser.add_argument("--existing", type=json.loads, help="JSON: an interpreter to take instead, and its modules")
    parser.add_argument("--wheels", type=Path, nargs="?", help="record of fetched wheels, to install from nothing else")
    parser.add_argument("--horovod", type=Path, nargs="?", help="record of a wheel of Horovod, to install it from")
    result = parser.add_mutually_exclusive_group(required=True)
    result.add_argument("--record", type=Path, help="JSON file to write")
    result.add_argument("--link", type=Path, help="where a link to the environment's folder is to be")
    arguments = parser.parse_args()
    arguments.pins = arguments.pins or find_pins(arguments.name)
    use_fetched(arguments.wheels)
    if arguments.existing:
        record = wrap_interpreter(arguments.name, arguments.pins, arguments.existing)
    else:
        horovod = json.loads(arguments.horovod.read_text()) if arguments.horovod else None
        # `make` links `.venv` before anything is installed, so it holds the lock itself.
        record = build_environment(arguments.name, arguments.pins, horovod, lock=arguments.link is None)
    if arguments.link:
        link(record, arguments.link)
    else:
        write_json_atomic(arguments.record, record)


if __name__ == "__main__":
    main()
