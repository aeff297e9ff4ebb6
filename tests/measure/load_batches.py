"""Store the batches that loaders yield in a framework's environment, or stop after the first batch and wait.

Each specification has one process per device. The batches of the last of these processes are loaded.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np

from howmanygpus.measure.input.loaders import load_loader
from howmanygpus.measure.input.prepared import open_data
from howmanygpus.measure.spec import RunSpec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", nargs="+", type=Path, help="JSON; batches.npz is written beside each")
    parser.add_argument("--wait", action="store_true")
    arguments = parser.parse_args()
    for path in arguments.specs:
        spec = RunSpec.read(path)
        data = open_data(spec.data_dir, crop_size=spec.crop_size)
        batches = load_loader(spec.loader)(spec, data, spec.num_gpus - 1, spec.num_gpus)
        if arguments.wait:
            iterator = iter(batches)
            next(iterator)
            print(os.getpid(), flush=True)
            time.sleep(600)
        images, labels = zip(*batches, strict=True)
        np.savez(path.with_name("batches.npz"), images=images, labels=labels)


if __name__ == "__main__":
    main()
