"""Fill a folder with the wheels that `make check-gpu` needs on a machine without a network."""

import argparse
import sys
from pathlib import Path

from howmanygpus_tools.wheelhouse.wheelhouse import WheelhouseError, fill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder of the wheels; it may exist")
    parser.add_argument("--python", help="version of the Python that installs them, such as 3.12 (default: this one)")
    parser.add_argument("--platform", help="such as manylinux_2_28_x86_64 (default: this machine's)")
    parser.add_argument("--site-has", nargs="*", default=[], help="packages of envs/measured.txt to leave out")
    arguments = parser.parse_args()
    try:
        wheels = fill(arguments.folder, arguments.python, arguments.platform, arguments.site_has)
    except WheelhouseError as error:
        sys.exit(str(error))
    size_mib = sum(wheel.stat().st_size for wheel in wheels) / 2**20
    print(f"{arguments.folder}: {len(wheels)} wheels, {size_mib:.0f} MiB")


if __name__ == "__main__":
    main()
