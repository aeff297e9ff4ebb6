"""
What planning and scheduling cost: seconds of a dry run of 1,000 and of 5,000 runs, and seconds per run beyond the
work for 40 runs that only sleep (a fake backend of the tests) and all that follows from them.
"""

import argparse
import tempfile
import time
from pathlib import Path

from reporting import write_benchmark

# isort: split
from project import Project, study

LIMITS = {"dry run of 1000 runs (s)": 6.0, "dry run of 5000 runs (s)": 15.0, "cost of a sleeping run (s)": 1.5}
SLEEP_S = 0.5


def time_dry_run(folder: Path, num_runs: int) -> float:
    """Seconds of a dry run of a fresh plan: 2 frameworks x 5 device counts x 10 batch sizes x repeats."""
    project = Project(folder)
    counts, sizes = [1, 2, 4, 8, 16], [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
    (folder / "profiles" / "local" / "machine.yaml").write_text("devices: {cpu: {devices_per_node: 16}}\n")
    project.write_config(big=study(num_gpus=counts, per_device_batch_size=sizes, repeats=num_runs // 100))
    started = time.perf_counter()
    output = project.snakemake("--dry-run", "--quiet", "rules")
    elapsed_s = time.perf_counter() - started
    assert f"train {num_runs}" in " ".join(output.split())
    return elapsed_s


def time_sleeping_runs(folder: Path, num_runs: int) -> float:
    """Seconds per run beyond its sleep, tables and figures included."""
    project = Project(folder, fakes=("sleeping",))
    project.behave(sleeping={"sleep_s": SLEEP_S})
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1], repeats=num_runs))
    started = time.perf_counter()
    project.snakemake()
    return (time.perf_counter() - started) / num_runs - SLEEP_S


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sleeping-runs", type=int, default=40, help="runs that sleep (default 40)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        seconds = (
            time_dry_run(folder / "thousand", 1000),
            time_dry_run(folder / "five_thousand", 5000),
            time_sleeping_runs(folder / "sleeping", arguments.sleeping_runs),
        )
    rows = [
        {"what": what, "seconds": measured, "limit": limit}
        for (what, limit), measured in zip(LIMITS.items(), seconds, strict=True)
    ]
    write_benchmark("grid_cost", rows)


if __name__ == "__main__":
    main()
