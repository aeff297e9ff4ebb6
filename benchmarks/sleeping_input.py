"""
The measured side of feeding.py: train with an input that takes as long as a step, with prefetch and without in turn.

It runs in a framework's environment. `start` starts the processes of a run as the launcher does; each is a `process`.
"""

import argparse
import dataclasses
import time
from itertools import repeat
from pathlib import Path

from safetensors.numpy import load_file

from howmanygpus.files import write_json_atomic
from howmanygpus.measure.host.placement import Placement
from howmanygpus.measure.host.processes import die_with_parent
from howmanygpus.measure.input.prepared import open_data
from howmanygpus.measure.launch.launch import lock_machine, run_processes
from howmanygpus.measure.loop.backend import load_backend
from howmanygpus.measure.loop.loop import TrainingLoop
from howmanygpus.measure.loop.schedule import count_steps_per_epoch, learning_rates
from howmanygpus.measure.records import AttemptFolder
from howmanygpus.measure.spec import RunSpec

DEADLINE_S = 1800.0


class SleepingLoop(TrainingLoop):
    """The input is one batch, again and again, after a pause in which no core is busy."""

    pause_s = 0.0

    def host_batches(self):
        for batch in repeat(next(iter(self.training_batches)), self.num_steps):
            time.sleep(self.pause_s)
            yield batch


def measure_pairs(spec: RunSpec, num_pairs: int) -> tuple[int, list[dict]]:
    """Return this process's rank and, for each pair, the seconds of a step.

    `step` is measured with an input that is available at once. `without` and `ahead` have an input that sleeps as long
    as `step` took, without prefetch and with it.
    """
    data = open_data(spec.data_dir)
    rates = learning_rates(spec, count_steps_per_epoch(len(data.train_labels), spec.global_batch_size))
    backend = load_backend(spec)(spec, data, load_file(spec.weights_file), rates)

    def measure(prefetch: int, pause_s: float) -> float:
        loop = SleepingLoop(dataclasses.replace(spec, prefetch=prefetch), data, backend, rates, None)
        loop.pause_s = pause_s
        with loop:
            backend.train(loop)
        return loop.clocks.measured_s / loop.clocks.measured_steps

    pairs = []
    for number in range(num_pairs):
        step_s = measure(0, 0.0)
        depths = {"without": 0, "ahead": spec.prefetch}
        order = list(depths) if number % 2 == 0 else list(reversed(depths))
        pairs.append({"step": step_s, **{name: measure(depths[name], step_s) for name in order}})
    rank = backend.rank
    backend.close()
    return rank, pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=("start", "process"))
    parser.add_argument("--spec", type=Path, required=True, help="JSON: the run's specification")
    parser.add_argument("--pairs", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="where to leave measured.json")
    arguments = parser.parse_args()
    die_with_parent()
    spec = RunSpec.read(arguments.spec)
    if arguments.role == "process":
        rank, pairs = measure_pairs(spec, arguments.pairs)
        if rank == 0:
            write_json_atomic(arguments.folder / "measured.json", {"pairs": pairs})
        return
    options = ["process", "--spec", str(arguments.spec), "--pairs", str(arguments.pairs)]
    options += ["--folder", str(arguments.folder)]
    attempt, placement = AttemptFolder(arguments.folder), Placement()
    with lock_machine(placement, "the benchmark sleeping_input"):
        raise SystemExit(run_processes(spec, placement, attempt, "sleeping_input", options, DEADLINE_S))


if __name__ == "__main__":
    main()
