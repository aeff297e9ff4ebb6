"""Convert published weights to canonical arrays, in PyTorch's own environment."""

import argparse
import os
from pathlib import Path

from howmanygpus.environments.find import find_python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", type=Path, required=True, help="record of PyTorch's environment")
    arguments, options = parser.parse_known_args()
    python = find_python(arguments.environment)
    os.execv(python, [python, "-m", "howmanygpus.train.frameworks.torch.published", *options])


if __name__ == "__main__":
    main()
