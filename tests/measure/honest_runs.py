"""
Show that no honest run is accused: each framework trains many times on one core, beside a busy loop on another core.

Prints for each framework how many runs had which status, and the rates. It takes a minute per framework; the shape is
that of config/all_frameworks.yaml, with steps of milliseconds and windows of five of them.

    PYTHONPATH=workflow/lib:benchmarks:tests/sandbox:tests .venv/bin/python tests/measure/honest_runs.py --runs 10
"""

import argparse
import collections
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from howmanygpus.registry import FRAMEWORKS
from measure.launching import train_in_turn
from preparing import resolve_python

DIGITS = {"num_train": 1437, "num_test": 360, "image_shape": (8, 8, 1)}
REQUEST = {"global_batch_size": 32, "epochs": 12, "window_steps": 5, "random_crop_padding": 1, "prefetch": 2}
BUSY = "while True: pass"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frameworks", nargs="+", default=list(FRAMEWORKS), choices=list(FRAMEWORKS))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=REQUEST["epochs"])
    parser.add_argument("--window-steps", type=int, default=REQUEST["window_steps"])
    parser.add_argument("--cores", type=int, nargs=2, default=(0, 1), help="of the runs and of the busy loop")
    arguments = parser.parse_args()
    own, other = arguments.cores
    busy = subprocess.Popen([sys.executable, "-c", BUSY], preexec_fn=lambda: os.sched_setaffinity(0, [other]))
    os.sched_setaffinity(0, [own])
    request = REQUEST | {"epochs": arguments.epochs, "window_steps": arguments.window_steps, "data": DIGITS}
    try:
        for framework in arguments.frameworks:
            python = resolve_python(framework)
            with tempfile.TemporaryDirectory() as folder:
                runs = train_in_turn(python, Path(folder), framework, [request] * arguments.runs)
                if runs[0].exit_status:
                    sys.exit(f"{framework}: {runs[0].output[-3000:]}")
                records = [run.record for run in runs]
            rates = sorted(32 * record["measured_steps"] / record["measured_s"] for record in records)
            statuses = dict(collections.Counter(record["status"] for record in records))
            print(framework, statuses, f"{rates[0]:.0f} to {rates[-1]:.0f} images/s", flush=True)
            for reason in filter(None, (record["reason"] for record in records)):
                print("   ", reason, flush=True)
    finally:
        busy.kill()
        busy.wait()


if __name__ == "__main__":
    main()
