"""Start a module of the library, in the environment of a framework. Nothing is timed in it."""

import argparse
import os
from pathlib import Path

from howmanygpus.base.environment import build_unmeasured
from howmanygpus.site.environments.find import resolve_python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", type=Path, required=True, help="record of the framework's environment")
    parser.add_argument("--module", required=True, help="module below howmanygpus, which gets all other options")
    arguments, options = parser.parse_known_args()
    python = resolve_python(arguments.environment)
    os.execve(python, [python, "-m", f"howmanygpus.{arguments.module}", *options], build_unmeasured(os.environ))


if __name__ == "__main__":
    main()
