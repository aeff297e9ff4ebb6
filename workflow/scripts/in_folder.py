"""
Become a step of the workflow in the folder of a module's prefix, without the prefix in its paths.

    in_folder.py PREFIX SCRIPT OPTION ...
"""

import os
import sys


def main() -> None:
    prefix, script, *options = sys.argv[1:]
    os.chdir(prefix)
    os.execv(sys.executable, [sys.executable, script, *(each.removeprefix(f"{prefix}/") for each in options)])


if __name__ == "__main__":
    main()
