"""Run in a framework's environment: stores the batches that a loader yields, or stops after the first and waits."""

import argparse
import os
import time

import numpy as np

from trainbench.data import open_data
from trainbench.loaders import load_loader
from trainbench.spec import RunSpec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec")
    parser.add_argument("batches", help="file to write")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--num-processes", type=int, default=1)
    parser.add_argument("--wait", action="store_true")
    arguments = parser.parse_args()
    spec = RunSpec.read(arguments.spec)
    batches = load_loader(spec.loader)(spec, open_data(spec.data_dir), arguments.rank, arguments.num_processes)
    if arguments.wait:
        iterator = iter(batches)
        next(iterator)
        print(os.getpid(), flush=True)
        time.sleep(600)
    images, labels = zip(*batches, strict=True)
    np.savez(arguments.batches, images=images, labels=labels)


if __name__ == "__main__":
    main()
