"""
What a job costs beyond its work, and how near a grid of jobs comes to the best packing.

Starts the tests' cluster (three nodes with four pretend GPUs each, on this machine) and runs 24 sleeping runs of 30 s
on 1, 2 and 4 devices as jobs on shared nodes. The ideal is the least time in which a cluster could do the sleeping
alone. Beside it the same grid inside one packed allocation, one run after the other on one node.

    .venv/bin/python benchmarks/slurm_cost.py

What a patch of workflow/lib/howmanygpus/snakemake_patches/ saves is the difference to a call without it:

    .venv/bin/python benchmarks/slurm_cost.py --without-packed --repeats 1 --jobs 1 --sleep-s 1
    .venv/bin/python benchmarks/slurm_cost.py --without-packed --repeats 1 --jobs 1 --sleep-s 1 \\
        --without-patch one_snakemake
    .venv/bin/python benchmarks/slurm_cost.py --ctrl-c-after-s 60
    .venv/bin/python benchmarks/slurm_cost.py --ctrl-c-after-s 60 --without-patch ending
"""

import argparse
import json
import signal
import subprocess
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
UNPATCHED = "\n\ndef apply(): pass\n\n\ndef forget_requests(): pass\n"
"""At the end of a patch's file, takes it out of use."""


def count_ideal_rounds(num_gpus: list[int]) -> int:
    """Rounds of equally long runs that first-fit decreasing needs on the cluster's nodes: no packing needs fewer.

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


def make_project(folder: Path, cluster: Cluster, arguments: argparse.Namespace) -> ClusterProject:
    """A copy of the project without the patches that the call leaves out."""
    project = ClusterProject(folder, cluster, fakes=FRAMEWORKS)
    for name in arguments.without_patch:
        project.edit(f"workflow/lib/howmanygpus/snakemake_patches/{name}.py", UNPATCHED)
    return project


def make_grid(folder: Path, cluster: Cluster, arguments: argparse.Namespace) -> ClusterProject:
    project = make_project(folder, cluster, arguments)
    options = {"devices": ["fake"], "num_gpus": list(NUM_GPUS), "repeats": arguments.repeats}
    project.write_config(grid=study(frameworks=list(FRAMEWORKS), per_device_batch_size=[8], **options))
    project.behave(grid={"sleep_s": arguments.sleep_s})
    return project


def read_jobs(project: ClusterProject) -> pd.DataFrame:
    """Seconds of each run's job from its start to the end of its run, and of the run itself."""
    rows = []
    for path in (project.folder / "results" / "runs").rglob("run.json"):
        record = json.loads(path.read_text())
        finished = pd.Timestamp(record["finished_at"]).timestamp()
        rows.append({"start": record["job"]["started_at"], "end": finished, "wall_s": record["wall_time_s"]})
    return pd.DataFrame(rows)


def measure_jobs(folder: Path, cluster: Cluster, arguments: argparse.Namespace) -> dict:
    project = make_grid(folder, cluster, arguments)
    # What comes before the grid on every cluster is not part of it.
    project.snakemake("--until", "leave_unchecked", "prepare_arrays", "initialize_weights", timeout_s=300)
    started = time.time()
    project.snakemake("grid", "--jobs", str(arguments.jobs), timeout_s=3000)
    elapsed_s, jobs = time.time() - started, read_jobs(project)
    return {
        "makespan_s": jobs["end"].max() - started,
        "with_tables_and_figures_s": elapsed_s,
        "beyond_the_work_s": float((jobs["end"] - jobs["start"] - arguments.sleep_s).median()),
    }


def measure_packed(folder: Path, cluster: Cluster, arguments: argparse.Namespace) -> dict:
    project = make_grid(folder, cluster, arguments)
    script = project.folder / "profiles" / "slurm" / "packed.sbatch"
    text = script.read_text().replace("gpu:a100:4", f"gpu:fake:{GPUS_PER_NODE}")
    script.write_text(text.replace(".venv/bin/snakemake", f"{sys.executable} -m snakemake"))
    started = time.time()
    command = ["sbatch", "--wait", str(script), "grid"]
    subprocess.run(command, cwd=project.folder, env=project.environment(), check=True, timeout=3600)
    return {"makespan_s": read_jobs(project)["end"].max() - started}


def measure_ctrl_c(folder: Path, cluster: Cluster, arguments: argparse.Namespace) -> dict:
    """Seconds from Ctrl-C to Snakemake's end, while one job has been running for some time."""
    project = make_project(folder, cluster, arguments)
    project.write_config(grid=study(frameworks=["sleeping"], devices=["fake"], num_gpus=[1], per_device_batch_size=[8]))
    project.behave(sleeping="wait_for_file")
    process = project.start("--until", "train")
    project.wait_for_running("sleeping")
    time.sleep(arguments.ctrl_c_after_s)
    pressed = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=600)
    return {"until_end_s": time.monotonic() - pressed}


def measure_grid(scratch: Path, cluster: Cluster, arguments: argparse.Namespace) -> list[dict]:
    runs = [count for count in NUM_GPUS for _ in range(arguments.repeats * len(FRAMEWORKS))]
    ideal_s = count_ideal_rounds(runs) * arguments.sleep_s
    rows = [{"mode": "jobs on shared nodes", **measure_jobs(scratch / "jobs", cluster, arguments)}]
    if not arguments.without_packed:
        packed = measure_packed(scratch / "packed", cluster, arguments)
        rows.append({"mode": "packed allocation of one node", **packed})
    for row, best_s in zip(rows, (ideal_s, len(runs) * arguments.sleep_s), strict=False):
        row |= {"runs": len(runs), "ideal_s": best_s, "over_ideal": row["makespan_s"] / best_s}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sleep-s", type=float, default=30.0)
    parser.add_argument("--without-packed", action="store_true", help="leave out the packed allocation")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="repeats of each run of the grid")
    parser.add_argument("--jobs", type=int, default=100, help="jobs at a time; 1 shows the cost of a job alone")
    parser.add_argument("--without-patch", action="append", default=[], metavar="NAME", help="leave out a patch")
    parser.add_argument("--ctrl-c-after-s", type=float, help="measure the end after Ctrl-C in place of the grid")
    arguments = parser.parse_args()
    if obstacle := find_obstacle():
        sys.exit(obstacle)
    with tempfile.TemporaryDirectory() as scratch, Cluster(Path(scratch) / "cluster", NUM_NODES) as cluster:
        if arguments.ctrl_c_after_s:
            mode = f"Ctrl-C after {arguments.ctrl_c_after_s:.0f} s"
            rows = [{"mode": mode, **measure_ctrl_c(Path(scratch) / "project", cluster, arguments)}]
        else:
            rows = measure_grid(Path(scratch), cluster, arguments)
    for row in rows:
        row["without_patches"] = " ".join(arguments.without_patch)
    write_benchmark("slurm_cost", rows)


if __name__ == "__main__":
    main()
