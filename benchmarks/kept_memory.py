"""
Measure the gain of the malloc settings of the tier `best`: a bare loop with them against the same loop without.

The two loops train side by side (ResNet-44, 32x32 RGB), each on its own core, then with the cores exchanged. The result
is images/s with the settings over images/s without, in the same seconds.
"""

import argparse
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from harness_cost import bare_loop, read_reports
from preparing import prepare, resolve_python
from reporting import ROOT, write_benchmark

# isort: split
from howmanygpus.measure.host.processes import KEEP_FREED_MEMORY, list_cores
from howmanygpus.registry import FRAMEWORKS

WARM_UP_S = 10.0


def measure(framework: str, python: str, folder: Path, cores: list[int], batch_size: int, seconds: float) -> float:
    """Return the rate with the settings on cores[0] over the rate without them on cores[1]."""
    kept, given_back = folder / "kept", folder / "given_back"
    for own in (kept, given_back):
        own.mkdir(exist_ok=True)
        (own / "data").unlink(missing_ok=True)
        (own / "data").symlink_to(folder / "data")
    with (
        bare_loop(framework, python, kept, cores[:1], batch_size, KEEP_FREED_MEMORY) as one,
        bare_loop(framework, python, given_back, cores[1:2], batch_size, {}) as other,
    ):
        begin = time.time() + WARM_UP_S
        time.sleep(WARM_UP_S + seconds)
        end = min(read_reports(path)[0][-1] for path in (one, other))
        images = [np.interp([begin, end], *read_reports(path)) for path in (one, other)]
    return float(np.diff(images[0])[0] / np.diff(images[1])[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    bare = [name for name in FRAMEWORKS if (ROOT / "benchmarks" / "bare" / f"{name}.py").exists()]
    parser.add_argument("--frameworks", nargs="+", default=bare, choices=bare)
    parser.add_argument("--batch-size", type=int, default=32, help="images (default 32)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement (default 20)")
    parser.add_argument("--pairs", type=int, default=3, help="pairs, each with the cores both ways (default 3)")
    arguments = parser.parse_args()
    cores, rows = list_cores()[:2], []
    if len(cores) < 2:
        parser.error("two loops side by side need two cores")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder)
        for framework in arguments.frameworks:
            python, ratios = resolve_python(framework), []
            for _ in range(arguments.pairs):
                options = (arguments.batch_size, arguments.seconds)
                halves = [measure(framework, python, folder, order, *options) for order in (cores, cores[::-1])]
                ratios.append(math.sqrt(halves[0] * halves[1]))
                print(f"{framework}: {ratios[-1]:.3f}", file=sys.stderr)
            rows.append(
                {
                    "framework": framework,
                    "ratio_median": statistics.median(ratios),
                    "ratio_min": min(ratios),
                    "ratio_max": max(ratios),
                    "pairs": len(ratios),
                }
            )
    write_benchmark("kept_memory", rows)


if __name__ == "__main__":
    main()
