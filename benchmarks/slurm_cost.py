"""
Measure the overhead of a job beyond its work, and how near a grid of jobs comes to the best packing.

Starts the tests' cluster (three nodes with four pretend GPUs each, on this machine) and runs 24 sleeping runs of 30 s
on 1, 2 and 4 devices as jobs on shared nodes. The ideal is the shortest time in which a cluster could do the sleeping
alone. For comparison, the same grid runs inside one packed allocation, one run after the other on one node.

    .venv/bin/python benchmarks/slurm_cost.py

With --patch, measure the time that a method of our executor saves, with and without it in turn:
`one_snakemake` for each of a few jobs that run alone, `ending` from a Ctrl-C to the end of Snakemake.

    .venv/bin/python benchmarks/slurm_cost.py --patch one_snakemake
    .venv/bin/python benchmarks/slurm_cost.py --patch ending
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from reporting import write_benchmark

# isort: split
from project import study
from slurm.cluster import GPUS_PER_NODE, Cluster, find_obstacle
from slurm.project import ClusterProject

NUM_NODES, NUM_GPUS, REPEATS, FRAMEWORKS = 3, (1, 2, 4), 4, ("sleeping", "dozing")
EXECUTOR = "workflow/lib/howmanygpus/invocation/executor.py"
TWO_SNAKEMAKES = "\n\ndel Executor.additional_general_args\n\n\ndef forget_requests(): pass\n"
LONG_SLEEP = "\n\ndel Executor.sleep\n"
"""Code that restores the plugin's behaviour if it is appended to our executor."""
JOBS_ALONE, RUNNING_S = 3, 75.0
"""Jobs of each round of `one_snakemake`; seconds for which a job runs until the Ctrl-C of `ending`."""


def count_ideal_rounds(num_gpus: list[int]) -> int:
    """Return the rounds of equally long runs that first-fit decreasing needs on the nodes: no packing needs fewer.

    Counts are powers of two that divide a node, for which first-fit decreasing is optimal.
    """
    free = []
    for wanted in sorted(num_gpus, reverse=True):
        place = next((i for i, left in enumerate(free) if left >= wanted), None)
        if place is None:
            free.append(GPUS_PER_NODE)
            place = len(free) - 1
        free[place] -= wanted
    return -(-len(free) // NUM_NODES)


def make_grid(folder: Path, cluster: Cluster, sleep_s: float) -> ClusterProject:
    project = ClusterProject(folder, cluster, fakes=FRAMEWORKS)
    options = {"devices": ["fake"], "num_gpus": list(NUM_GPUS), "repeats": REPEATS}
    project.write_config(grid=study(frameworks=list(FRAMEWORKS), per_device_batch_size=[8], **options))
    project.behave(grid={"sleep_s": sleep_s})
    return project


def read_jobs(project: ClusterProject) -> pd.DataFrame:
    """Return the seconds of each run's job from its start to the end of its run, and of the run itself."""
    rows = []
    for path in (project.folder / "results" / "runs").rglob("run.json"):
        record = json.loads(path.read_text())
        finished = pd.Timestamp(record["finished_at"]).timestamp()
        rows.append({"start": record["job"]["started_at"], "end": finished, "wall_s": record["wall_time_s"]})
    return pd.DataFrame(rows)


def measure_jobs(folder: Path, cluster: Cluster, sleep_s: float) -> dict:
    project = make_grid(folder, cluster, sleep_s)
    # The steps before the grid, which every cluster has, are not measured.
    project.snakemake("--until", "leave_unchecked", "prepare_arrays", "initialize_weights", timeout_s=300)
    started = time.time()
    project.snakemake("grid", timeout_s=3000)
    elapsed_s, jobs = time.time() - started, read_jobs(project)
    return {
        "makespan_s": jobs["end"].max() - started,
        "with_tables_and_figures_s": elapsed_s,
        "beyond_the_work_s": float((jobs["end"] - jobs["start"] - sleep_s).median()),
    }


def measure_packed(folder: Path, cluster: Cluster, sleep_s: float) -> dict:
    project = make_grid(folder, cluster, sleep_s)
    started = time.time()
    project.submit_packed("grid", timeout_s=3600)
    return {"makespan_s": read_jobs(project)["end"].max() - started}


def measure_jobs_alone(project: ClusterProject) -> list[float]:
    """Return the seconds of each job beyond its second of sleep, one job at a time."""
    options = {"devices": ["fake"], "num_gpus": [1], "repeats": JOBS_ALONE, "per_device_batch_size": [8]}
    project.write_config(grid=study(frameworks=["sleeping"], **options))
    project.behave(grid={"sleep_s": 1})
    project.snakemake("--until", "train", "--jobs", "1", timeout_s=300)
    jobs = read_jobs(project)
    return list(jobs["end"] - jobs["start"] - 1)


def measure_ctrl_c(project: ClusterProject) -> list[float]:
    """Return the seconds from Ctrl-C to the end of Snakemake, after one job has been running for RUNNING_S."""
    options = {"devices": ["fake"], "num_gpus": [1], "per_device_batch_size": [8]}
    project.write_config(grid=study(frameworks=["sleeping"], **options))
    project.behave(grid="wait_for_file")
    process = project.start("--until", "train")
    project.wait_for_running("grid")
    time.sleep(RUNNING_S)
    pressed = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=600)
    return [time.monotonic() - pressed]


COMPARED = {"one_snakemake": (measure_jobs_alone, 2, TWO_SNAKEMAKES), "ending": (measure_ctrl_c, 1, LONG_SLEEP)}
"""The measurement of each method, how often it is done with and without it, and the code that restores the plugin's."""


def compare_patch(name: str, scratch: Path, cluster: Cluster) -> list[dict]:
    """Return median seconds with and without a method, in turn, because other work on this machine slows both down."""
    measure, rounds, without = COMPARED[name]
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    for number in range(rounds):
        for mode, measured in seconds.items():
            project = ClusterProject(scratch / f"{mode}{number}", cluster, fakes=FRAMEWORKS)
            if mode == "without":
                project.edit(EXECUTOR, without)
            measured += measure(project)
    return [
        {"mode": f"{mode} {name}", "measured": len(each), "median_s": pd.Series(each).median(), "max_s": max(each)}
        for mode, each in seconds.items()
    ]


def measure_grid(scratch: Path, cluster: Cluster, sleep_s: float, is_packed: bool) -> list[dict]:
    """Return the rows of the grid as jobs, and inside one allocation if is_packed."""
    runs = [count for count in NUM_GPUS for _ in range(REPEATS * len(FRAMEWORKS))]
    ideal_s = count_ideal_rounds(runs) * sleep_s
    rows = [{"mode": "jobs on shared nodes", **measure_jobs(scratch / "jobs", cluster, sleep_s)}]
    if is_packed:
        packed = measure_packed(scratch / "packed", cluster, sleep_s)
        rows.append({"mode": "packed allocation of one node", **packed})
    for row, best_s in zip(rows, (ideal_s, len(runs) * sleep_s), strict=False):
        row |= {"runs": len(runs), "ideal_s": best_s, "over_ideal": row["makespan_s"] / best_s}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sleep-s", type=float, default=30.0)
    parser.add_argument("--without-packed", action="store_true", help="leave out the packed allocation")
    parser.add_argument("--patch", choices=COMPARED, help="measure what this method saves, in place of the grid")
    arguments = parser.parse_args()
    if obstacle := find_obstacle():
        sys.exit(obstacle)
    with tempfile.TemporaryDirectory() as scratch, Cluster(Path(scratch) / "cluster", NUM_NODES) as cluster:
        if arguments.patch:
            rows = compare_patch(arguments.patch, Path(scratch), cluster)
        else:
            rows = measure_grid(Path(scratch), cluster, arguments.sleep_s, not arguments.without_packed)
    write_benchmark(f"slurm_cost_{arguments.patch}" if arguments.patch else "slurm_cost", rows)


if __name__ == "__main__":
    main()
