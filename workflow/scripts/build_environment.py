"""Build a virtual environment in the cache, or find it there. Then record the path of its Python, or link to it."""

import argparse
import json
import sys
from pathlib import Path

from howmanygpus.files import write_json_atomic
from howmanygpus.site.environments.build import build_environment, use_fetched
from howmanygpus.site.environments.existing import link, wrap_interpreter
from howmanygpus.site.environments.pins import read_newest_python


def refuse_newer_python(name: str, pins: list[Path]) -> None:
    """Raise SystemExit if the pins have no builds for this Python. pip would name a package, but not the remedy."""
    newest = read_newest_python(pins)
    if newest and sys.version_info[:2] > newest:
        last, own = (".".join(map(str, version[:2])) for version in (newest, sys.version_info))
        sys.exit(
            f"envs/{name}.txt: its pins have builds for Python {last} and older, and .venv has {own}; leave the "
            f"framework out, or remove .venv and call `make PYTHON=python{last} .venv/installed`"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--pins", type=Path, nargs="+", required=True, help="requirements files")
    parser.add_argument("--existing", type=json.loads, help="JSON: an interpreter to take instead, and its modules")
    parser.add_argument("--wheels", type=Path, nargs="?", help="record of fetched wheels, to install from nothing else")
    parser.add_argument("--horovod", type=Path, nargs="?", help="record of a wheel of Horovod, to install it from")
    result = parser.add_mutually_exclusive_group(required=True)
    result.add_argument("--record", type=Path, help="JSON file to write")
    result.add_argument("--link", type=Path, help="where a link to the environment's folder is to be")
    arguments = parser.parse_args()
    use_fetched(arguments.wheels)
    if arguments.existing:
        record = wrap_interpreter(arguments.name, arguments.pins, arguments.existing)
    else:
        refuse_newer_python(arguments.name, arguments.pins)
        horovod = json.loads(arguments.horovod.read_text()) if arguments.horovod else None
        # `make` links `.venv` before anything is installed, so it holds the lock itself.
        record = build_environment(arguments.name, arguments.pins, horovod, lock=arguments.link is None)
    if arguments.link:
        link(record, arguments.link)
    else:
        write_json_atomic(arguments.record, record)


if __name__ == "__main__":
    main()
