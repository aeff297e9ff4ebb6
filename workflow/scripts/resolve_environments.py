"""
Have uv resolve the pins of every framework's environment, those for GPUs included, without installing them.

Run it after a change of a pin. It also works on a machine without a GPU. Nothing is kept.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from howmanygpus.config.errors import refuse_choice
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.environments.build import install
from howmanygpus.site.environments.pins import list_pin_files


def resolve(name: str) -> bool:
    """Return whether uv finds versions of everything that the environment needs. uv prints to the terminal."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            install(Path(folder) / name, list_pin_files(name), ("--dry-run",))
        except SystemExit as error:
            print(error, file=sys.stderr)
            return False
    return True


def main() -> None:
    names = sorted({name for entry in FRAMEWORKS.values() for name in entry.environments.values()})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=names, metavar="name", help=f"of {', '.join(names)} (default all)")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in names:
            parser.error(str(refuse_choice("name", name, "environment", names)))
    failed = [name for name in arguments.names if not resolve(name)]
    if failed:
        sys.exit(f"uv cannot resolve {', '.join(failed)}: see its messages above and change envs/<name>.txt")
    print(f"resolved: {', '.join(arguments.names)}")


if __name__ == "__main__":
    main()
