"""Install the workflow's environment from a folder of wheels, without a network, and link to it."""

import argparse
import sys
from pathlib import Path

from howmanygpus.site.environments.existing import link
from howmanygpus_tools.wheelhouse.wheelhouse import WheelhouseError, install_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, required=True, help="folder that `make wheelhouse` has filled")
    parser.add_argument("--link", type=Path, required=True, help="where a link to the environment's folder is to be")
    arguments = parser.parse_args()
    try:
        link(install_all(arguments.wheels), arguments.link)
    except WheelhouseError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
