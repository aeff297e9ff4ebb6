"""
Measure the cost of planning and scheduling.

A dry run of 1,000 and of 5,000 runs is compared with one of a bare grid: as many jobs of two inputs and one output,
in a Snakefile of ten lines. Neither lists its jobs, which is the default for dry runs of the workflow. Both take turns,
and the ratio of their processor times is taken pair by pair; the median counts, with the range. A first pair is not
counted, since Python then writes the bytecode of the workflow's modules, which users have too. The overhead per run, in
seconds beyond its work, is measured separately with runs that only sleep.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reporting import write_benchmark

# isort: split
from project import Project, study

AIMS = {1000: 1.5, 5000: 2.0}
"""Largest ratio of a dry run's time to the bare grid's, by the number of runs."""
PLAN_ALONE = ("rules", "progress")
"""Values of --quiet with which a dry run ends after the plan."""
SLEEP_S, SLEEPING_AIM_S = 0.5, 1.5
BARE = """
rule all:
    input:
        expand("out/{{job}}.txt", job=range({num_jobs})),

rule one:
    input:
        "first.txt",
        "second.txt",
    output:
        "out/{{job}}.txt",
    shell:
        "cp {{input}} {{output}}"
"""


def make_bare(folder: Path, num_jobs: int) -> Path:
    folder.mkdir()
    (folder / "Snakefile").write_text(BARE.format(num_jobs=num_jobs))
    for name in ("first", "second"):
        (folder / f"{name}.txt").touch()
    return folder


def make_grid(folder: Path, num_runs: int) -> Path:
    """Make a fresh plan of 2 frameworks x 5 device counts x 10 batch sizes x repeats."""
    project, counts, sizes = Project(folder), [1, 2, 4, 8, 16], list(range(2, 22, 2))
    (folder / "profiles" / "local" / "machine.yaml").write_text("devices: {cpu: {devices_per_node: 16}}\n")
    project.write_config(big=study(num_gpus=counts, per_device_batch_size=sizes, repeats=num_runs // 100))
    return folder


def time_dry_run(folder: Path, *options: str, planned: str) -> float:
    """Return the seconds of processor time. planned: text that the dry run must print."""
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--dry-run", *options]
    left_out = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert planned in (result.stdout + result.stderr).split(), "not all jobs were planned"
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare_dry_runs(folder: Path, num_runs: int, pairs: int) -> dict:
    bare, grid = make_bare(folder / f"bare{num_runs}", num_runs), make_grid(folder / f"grid{num_runs}", num_runs)
    ratios, bare_s = [], []
    for _ in range(pairs + 1):
        bare_s.append(time_dry_run(bare, "--quiet", *PLAN_ALONE, planned="DAG"))
        ratios.append(time_dry_run(grid, "--profile", "profiles/local", planned=str(num_runs)) / bare_s[-1])
    counted = ratios[1:]
    what = f"dry run of {num_runs} runs over a bare grid's, {pairs} pairs"
    row = {"what": what, "measured": statistics.median(counted), "min": min(counted), "max": max(counted)}
    return row | {"aim": AIMS[num_runs], "bare_s": statistics.median(bare_s[1:])}


def time_sleeping_runs(folder: Path, num_runs: int) -> dict:
    """Return the seconds per run beyond its sleep, tables and figures included."""
    project = Project(folder, fakes=("sleeping",))
    project.behave(sleeping={"sleep_s": SLEEP_S})
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1], repeats=num_runs))
    started = time.perf_counter()
    project.snakemake(timeout_s=1800)
    cost_s = (time.perf_counter() - started) / num_runs - SLEEP_S
    return {"what": f"seconds a run beyond its sleep, {num_runs} runs", "measured": cost_s, "aim": SLEEPING_AIM_S}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="pairs of dry runs (default 5)")
    parser.add_argument("--sleeping-runs", type=int, default=40, help="runs that sleep (default 40)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        rows = [compare_dry_runs(Path(scratch), num_runs, arguments.pairs) for num_runs in AIMS]
        if arguments.sleeping_runs:
            rows.append(time_sleeping_runs(Path(scratch) / "sleeping", arguments.sleeping_runs))
    write_benchmark("grid_cost", rows)


if __name__ == "__main__":
    main()
