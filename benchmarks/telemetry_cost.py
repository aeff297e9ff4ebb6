"""
Measure the cost of the sampler: runs with samples ten times a second, and runs that take none.

The first result is the share of a core that the sampler takes, by the processor time of its own thread, which hardly
depends on other work on the machine. The second is images/s of a run with samples over images/s of one without. The
runs of a pair take turns on the same cores, in both orders, so that drift of the machine cancels; the sampler is on the
run's own cores, as it is in every run. The interval of the median ratio has a confidence of 95 % if there are six pairs
or more (order statistics), and is the range of the ratios if there are fewer.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from harness_cost import run_once
from preparing import prepare, resolve_python
from reporting import write_benchmark

# isort: split
from howmanygpus.measure.host.processes import list_cores
from howmanygpus.report.intervals import median_interval
from howmanygpus.report.tables.runs import describe_timing

NEVER_S = 1e9
"""Time between samples with which a run takes none."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layouts", nargs="+", default=["pytorch_ddp:2"], help="framework:devices of one core each")
    parser.add_argument("--interval-s", type=float, default=0.1, help="time between samples (default 0.1)")
    parser.add_argument("--batch-size", type=int, default=32, help="images per device (default 32)")
    parser.add_argument("--steps", type=int, default=80, help="measured steps (default 80)")
    parser.add_argument("--pairs", type=int, default=6, help="pairs of runs, each in both orders (default 6)")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder)
        for layout in arguments.layouts:
            framework, _, count = layout.partition(":")
            cores, python = list_cores()[: int(count)], resolve_python(framework)
            if len(cores) < int(count):
                parser.error(f"--layouts {layout} needs {count} cores, not {len(cores)}")
            shares, ratios = [], []
            for _ in range(arguments.pairs):
                rates: dict[float, list[float]] = {arguments.interval_s: [], NEVER_S: []}
                for interval_s in (*rates, *reversed(rates)):
                    size = (arguments.batch_size, arguments.steps)
                    placement = {"telemetry_interval_s": interval_s}
                    record, events = run_once(framework, python, folder, cores, *size, placement)
                    rates[interval_s].append(describe_timing(record, events)["images_per_s"])
                    if interval_s != NEVER_S:
                        shares.append(record["telemetry"]["core_frac"])
                sampled, unsampled = (statistics.geometric_mean(each) for each in rates.values())
                ratios.append(sampled / unsampled)
                print(f"{layout}: {sampled:.1f} and {unsampled:.1f} images/s, {shares[-1]:.2%}", file=sys.stderr)
            low, high = median_interval(ratios)
            rows.append(
                {
                    "framework": framework,
                    "num_devices": int(count),
                    "interval_s": arguments.interval_s,
                    "core_frac_median": statistics.median(shares),
                    "core_frac_max": max(shares),
                    "ratio_median": statistics.median(ratios),
                    "ratio_low": low,
                    "ratio_high": high,
                    "pairs": len(ratios),
                }
            )
    write_benchmark("telemetry_cost", rows)


if __name__ == "__main__":
    main()
