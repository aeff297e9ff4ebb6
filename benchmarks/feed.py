"""
Run one loader without training, in its framework's environment, and print its rate as JSON. See loader.py.

images_per_s is per second of processor time of all threads and processes; first_batch_s is wall time.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import psutil

from howmanygpus.measure.input.loaders import load_loader
from howmanygpus.measure.input.prepared import open_data
from howmanygpus.measure.spec import RunSpec

WARMUP_BATCHES = 6
"""Larger than the number of batches that any loader with few workers prepares in advance."""


def processor_seconds() -> float:
    """Return the processor time of this process and its workers so far."""
    tree = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(process.cpu_times()[:2]) for process in tree)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="specification of a run")
    parser.add_argument("--seconds", type=float, required=True, help="duration of the measurement")
    parser.add_argument("--first-batch", type=Path, required=True, help="file for the images of the first batch")
    arguments = parser.parse_args()
    spec = RunSpec.read(arguments.spec)
    batches = iter(load_loader(spec.loader)(spec, open_data(spec.data_dir), 0, 1))
    started = time.perf_counter()
    np.save(arguments.first_batch, next(batches)[0])
    first_s = time.perf_counter() - started
    for _ in range(WARMUP_BATCHES):
        next(batches)
    num_images, started, used_s = 0, time.perf_counter(), -processor_seconds()
    while time.perf_counter() - started < arguments.seconds:
        num_images += len(next(batches)[0])
    used_s += processor_seconds()
    print(json.dumps({"images_per_s": num_images / used_s, "first_batch_s": first_s}))
    batches.close()


if __name__ == "__main__":
    main()
