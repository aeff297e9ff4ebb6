"""One process of several runs: it does each as measure.loop.train does, and leaves the process group after the last."""

import argparse
import gc
import os
from collections.abc import Callable
from pathlib import Path

from safetensors.numpy import save_file

from howmanygpus.measure.host.processes import die_with_parent
from howmanygpus.measure.loop import train
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.measure.spec import RunSpec
from measure import late_batches

load_own_backend = train.load_backend
replicas: list[Path] = []
"""The folder for the weights of each device after the run that is being done."""
last_close: list[Callable[[], None]] = []


def load_backend(spec: RunSpec):
    """Load a backend that stays in the process group, because not every framework can join one twice."""

    class KeptOpen(load_own_backend(spec)):
        def close(self) -> None:
            for number, replica in enumerate(self.replicas()):
                save_file(replica, replicas[-1] / f"rank{self.rank}_{number}.safetensors")
            last_close[:] = [super().close]

    return KeptOpen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--started-at", type=float, required=True)
    parser.add_argument("--attempts", nargs="+", required=True)
    arguments = parser.parse_args()
    die_with_parent()
    train.load_backend = load_backend
    late_batches.plant()
    cores = os.sched_getaffinity(0)
    for folder in arguments.attempts:
        # A backend binds the process to its device's share of the cores that the process has.
        os.sched_setaffinity(0, cores)
        attempt = AttemptFolder(folder)
        replicas.append(attempt.path.with_name("replicas"))
        replicas[-1].mkdir(exist_ok=True)
        train.run(RunSpec.read(attempt.spec), attempt, arguments.started_at, save_weights=True)
        gc.collect()
    for close in last_close:
        close()


if __name__ == "__main__":
    main()
