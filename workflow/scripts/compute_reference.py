"""Compute the parity gate's reference, or its changes by reduced precision, in PyTorch's own environment."""

import argparse
import os
import subprocess
from pathlib import Path

from howmanygpus.environments.find import find_python
from howmanygpus.surroundings.environment import build_unmeasured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", type=Path, required=True, help="record of PyTorch's environment")
    parser.add_argument("--module", choices=("reference", "noise"), required=True, help="what to compute")
    parser.add_argument("--record", type=Path, required=True, help="JSON file to write, with the arrays beside it")
    arguments, options = parser.parse_known_args()
    command = [find_python(arguments.environment), "-m", f"howmanygpus.train.parity.{arguments.module}", *options]
    subprocess.run([*command, "--folder", str(arguments.record.parent)], env=build_unmeasured(os.environ), check=True)


if __name__ == "__main__":
    main()
