"""Convert published weights to canonical arrays, in PyTorch's own environment."""

import argparse
import os
from pathlib import Path

from howmanygpus.environments.find import find_python
from howmanygpus.surroundings.environment import build_surroundings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", type=Path, required=True, help="record of PyTorch's environment")
    arguments, options = parser.parse_known_args()
    python = find_python(arguments.environment)
    os.execve(
        python, [python, "-m", "howmanygpus.train.frameworks.torch.published", *options], build_surroundings(os.environ)
    )


if __name__ == "__main__":
    main()
