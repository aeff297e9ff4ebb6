"""
Compare the tiers with a plain training script, which users of the framework could have written.

Each round runs benchmarks/plain/<framework>.py, a run of the tier `stock` and, if the framework has a faster path on
CPUs, one of `best`: one after the other on the same cores, and in the opposite order in the next round. The launcher
starts the runs (ResNet-44, 32x32 RGB). The results are medians of the ratios of rates in the same round. `stock` is
what a user of the framework gets if its rate over that of the script is 1.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from harness_cost import run_once
from preparing import find_python, prepare
from reporting import ROOT, write_benchmark

# isort: split
from howmanygpus.plan.frameworks import FRAMEWORKS
from howmanygpus.report.tables.runs import describe_timing
from howmanygpus.surroundings.environment import build_surroundings
from howmanygpus.train.host.processes import list_cores

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


def run_round(framework: str, python: str, folder: Path, ways: list[str], *size) -> dict[str, float]:
    """Return images/s of each way. size: cores, images per device, and steps."""
    rates = {}
    for way in ways:
        if way == "script":
            rates[way] = run_script(framework, python, folder, *size)
        else:
            rates[way] = describe_timing(*run_once(framework, python, folder, *size, tier=way, **UNAUGMENTED))[
                "images_per_s"
            ]
        print(f"{framework}, {len(size[0])} devices, {way}: {rates[way]:.1f} images/s", file=sys.stderr)
    return rates


def describe(rounds: list[dict[str, float]], way: str, baseline: str) -> dict[str, float]:
    """Return the median, the smallest and the largest ratio of two ways."""
    ratios = sorted(rates[way] / rates[baseline] for rates in rounds)
    name = f"{way}_over_{baseline}"
    return {name: statistics.median(ratios), f"{name}_min": ratios[0], f"{name}_max": ratios[-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layouts", nargs="+", default=LAYOUTS, help="framework:devices of one core each")
    parser.add_argument("--batch-size", type=int, default=32, help="images per device (default 32)")
    parser.add_argument("--steps", type=int, default=80, help="measured steps (default 80)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5)")
    arguments = parser.parse_args()
    cores, rows = list_cores(), []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder)
        for layout in arguments.layouts:
            framework, _, count = layout.partition(":")
            if len(own := cores[: int(count)]) < int(count):
                parser.error(f"--layouts {layout} needs {count} cores, not {len(cores)}")
            has_best = "cpu" in FRAMEWORKS[framework].best
            ways = ["script", "stock", *(["best"] if has_best else [])]
            size = (own, arguments.batch_size, arguments.steps)
            python = find_python(framework)
            rounds = [
                run_round(framework, python, folder, ways[:: (-1) ** number], *size)
                for number in range(arguments.rounds)
            ]
            row = {"framework": framework, "num_devices": int(count), "rounds": len(rounds)}
            row |= {f"{way}_images_per_s": statistics.median(rates[way] for rates in rounds) for way in ways}
            row |= describe(rounds, "stock", "script")
            rows.append(row | (describe(rounds, "best", "stock") if has_best else {}))
    write_benchmark("tiers", rows)


if __name__ == "__main__":
    main()
