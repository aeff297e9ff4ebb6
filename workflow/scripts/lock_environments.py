"""
Have uv lock the packages of every environment, those for GPUs included, without installing them.

Run it after a change of a pin. It also works on a machine without a GPU. A lock keeps the versions that it has, unless
a pin needs others; to take newer ones, remove the file first.
"""

import argparse
import sys

from howmanygpus.config.errors import refuse_choice
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.report.export import TOOLS
from howmanygpus.site.environments.lock import lock


def main() -> None:
    frameworks = {name for entry in FRAMEWORKS.values() for name in entry.list_environments()}
    names = sorted({*frameworks, *TOOLS, "pillow-simd", "site", "workflow"})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=names, metavar="name", help=f"of {', '.join(names)} (default all)")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in names:
            parser.error(str(refuse_choice("name", name, "environment", names)))
    failed = [name for name in arguments.names if not lock(name)]
    if failed:
        sys.exit(f"uv cannot lock {', '.join(failed)}: see its messages above and change envs/<name>.txt")
    print(f"locked: {', '.join(arguments.names)}")


if __name__ == "__main__":
    main()
