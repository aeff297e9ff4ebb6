"""
Compare the tiers with a plain training script, which users of the framework could have written.

The ways are benchmarks/plain/<framework>.py, a run of the tier `stock` and, if the framework has a faster path on
CPUs, one of `best`. The launcher starts the runs (ResNet-44, 32x32 RGB). Each round compares `stock` with the script,
and `best` with `stock`. Two ways train at the same time, each on its own cores, and again with the cores exchanged, so
that drift of the machine and differences between its cores cancel. On a machine with too few cores for this, one way
trains after the other on the same cores, and in the opposite order after that. The results are medians of the ratios of
the rounds. `stock` is what a user of the framework gets if its rate over that of the script is 1.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness_cost import run_once
from preparing import prepare, resolve_python
from reporting import ROOT, write_benchmark

# isort: split
from howmanygpus.base.environment import build_surroundings
from howmanygpus.measure.host.processes import list_cores
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.report.tables.runs import describe_timing

WARMUP_STEPS = 10
LAYOUTS = ("pytorch_ddp:1", "pytorch_ddp:2", "keras_mirrored:1")
UNAUGMENTED = {"random_flip": False, "random_crop_padding": 0}


def run_script(framework: str, python: str, folder: Path, cores: list[int], batch_size: int, num_steps: int) -> float:
    """Return images/s of the plain script."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={len(cores)}"]
    command = [python, *(torchrun if framework == "pytorch_ddp" else [])]
    command += [str(ROOT / "benchmarks" / "plain" / f"{framework}.py"), str(folder / "data")]
    command += [str(number) for number in (batch_size, WARMUP_STEPS, num_steps)]
    environment = {name: value for name, value in build_surroundings(os.environ).items() if name != "PYTHONPATH"}
    options = {"env": environment, "preexec_fn": lambda: os.sched_setaffinity(0, cores)}
    ended = subprocess.run(command, capture_output=True, text=True, **options)
    found = re.search(r"images/s: (\S+)", ended.stdout)
    if found is None:
        sys.exit(f"the script of {framework} ended with status {ended.returncode}:\n{ended.stderr[-2000:]}")
    return float(found[1])


def run_way(way: str, framework: str, python: str, folder: Path, cores: list[int], *size: int) -> float:
    """Return images/s of one way on these cores. size: images per device, and steps."""
    if way == "script":
        rate = run_script(framework, python, folder, cores, *size)
    else:
        record, events = run_once(framework, python, folder, cores, *size, tier=way, **UNAUGMENTED)
        rate = describe_timing(record, events)["images_per_s"]
    print(f"{framework}, {len(cores)} devices, {way}: {rate:.1f} images/s", file=sys.stderr)
    return rate


def compare(ways: tuple[str, str], framework: str, python: str, folder: Path, num_devices: int, *size: int):
    """Return images/s of two ways, as geometric means of two trainings each. size: see run_way."""
    cores = list_cores()
    sides = [cores[:num_devices], cores[num_devices : 2 * num_devices]]
    at_once = len(sides[1]) == num_devices
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for order in (1, -1):
        own_cores = dict(zip(ways, sides[::order], strict=True)) if at_once else dict.fromkeys(ways, sides[0])
        with ThreadPoolExecutor(max_workers=2 if at_once else 1) as pool:
            started = {
                way: pool.submit(run_way, way, framework, python, folder, own_cores[way], *size)
                for way in ways[::order]
            }
        for way, training in started.items():
            rates[way].append(training.result())
    return {way: statistics.geometric_mean(both) for way, both in rates.items()}


def describe(framework: str, num_devices: int, rounds: list[list[dict[str, float]]]) -> dict[str, float | int | str]:
    """Return a row of the table. rounds: of each pair of ways, images/s of both in each round."""
    row: dict[str, float | int | str] = {"framework": framework, "num_devices": num_devices, "rounds": len(rounds[0])}
    for pairs in rounds:
        baseline, way = pairs[0]
        ratios = sorted(rates[way] / rates[baseline] for rates in pairs)
        row |= {f"{name}_images_per_s": statistics.median(rates[name] for rates in pairs) for name in (baseline, way)}
        name = f"{way}_over_{baseline}"
        row |= {name: statistics.median(ratios), f"{name}_min": ratios[0], f"{name}_max": ratios[-1]}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layouts", nargs="+", default=LAYOUTS, help="framework:devices of one core each")
    parser.add_argument("--batch-size", type=int, default=32, help="images per device (default 32)")
    parser.add_argument("--steps", type=int, default=80, help="measured steps (default 80)")
    parser.add_argument("--rounds", type=int, default=4, help="rounds (default 4)")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder)
        for layout in arguments.layouts:
            framework, _, count = layout.partition(":")
            num_devices = int(count)
            if len(list_cores()) < num_devices:
                parser.error(f"--layouts {layout} needs {num_devices} cores, not {len(list_cores())}")
            pairs = [("script", "stock"), *([("stock", "best")] if "cpu" in FRAMEWORKS[framework].best else [])]
            size = (arguments.batch_size, arguments.steps)
            python = resolve_python(framework)
            rounds = [
                [compare(ways, framework, python, folder, num_devices, *size) for _ in range(arguments.rounds)]
                for ways in pairs
            ]
            rows.append(describe(framework, num_devices, rounds))
    write_benchmark("tiers", rows)


if __name__ == "__main__":
    main()
