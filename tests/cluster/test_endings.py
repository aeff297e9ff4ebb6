"""
Run a grid in which each run ends in a different way, with and without an accounting database.

Each run gets its own status and reason, the others go on, and a second call completes only the missing runs.
"""

import subprocess
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from hanging import HANG_S
from project import ROWS, study
from slurm.project import ClusterProject

HANG = """
import os, sys, time
if "howmanygpus.measure.launch.rank_process" in sys.orig_argv and os.environ.get("SLURM_PROCID") == "1":
    time.sleep(600)
"""
"""A sitecustomize.py that keeps the second process of a run from starting."""
MEMORY_PER_DEVICE_MB = 1000
ALONE = ["completing", "cancelled", "limited", "starving", "oversized", "diverging", "unwritten"]
"""Backends of runs on one device, named by how they end. `lost` uses all devices of a node; `stranded` uses two."""
TOLD_BY_THE_RUN = {"oversized", "diverging", "unwritten", "stranded"}
"""Runs that record their end without asking SLURM, so that they are tested with squeue only."""
UNFINISHED = {"cancelled", "limited", "starving", "unwritten", "lost", "stranded"}


@pytest.fixture(scope="module", params=["squeue", "sacct"])
def cluster(request, run_cluster):
    """Start a cluster without a database, which squeue queries, and one with a database, which sacct queries."""
    with run_cluster(accounting=request.param == "sacct") as started:
        yield started


def start_grid(cluster, prepared, folder) -> ClusterProject:
    project = ClusterProject(
        folder, cluster, slurm={"rendezvous_timeout_s": 5}, memory_per_device_mb=MEMORY_PER_DEVICE_MB
    )
    project.take_prepared(prepared)
    for name in [*ALONE, "lost"]:
        project.add_fake(name)
    project.add_fake("stranded", launcher="per_device")
    frameworks = {"one": (ALONE, 1), "two": (["stranded"], 2), "four": (["lost"], 4)}
    studies = {}
    for name, (names, count) in frameworks.items():
        if chosen := [each for each in names if not (cluster.accounting and each in TOLD_BY_THE_RUN)]:
            options = {"frameworks": chosen, "devices": ["fake"], "num_gpus": [count], "per_device_batch_size": [8]}
            studies[name] = study(**options)
    project.write_config(**studies)
    project.behave(
        cancelled__="wait_for_file",
        limited__="wait_for_file",
        lost__="wait_for_file",
        starving__={"allocate_mb": 1100},
        oversized__="out_of_memory",
        diverging__="diverge",
    )
    (project.folder / "workflow" / "lib" / "sitecustomize.py").write_text(HANG)
    status_command = "sacct" if cluster.accounting else "squeue"
    project.edit_profile(**{"slurm-no-requeue": True, "slurm-status-command": status_command})
    return project


def find_cell(project, name):
    """Return the folder of a run's attempts."""
    count = {"lost": 4, "stranded": 2}.get(name, 1)
    study_name = {1: "one", 2: "two", 4: "four"}[count]
    cell = f"{study_name}/{name}/base/arrays_fp32_fake_gpus{count}_batch8_repeat1"
    return project.folder / "results" / "attempts" / cell


@contextmanager
def full_disk(folder):
    """Mount a 44 kB disk at a folder."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=44k", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def provoke(project, cluster) -> str:
    """Run the grid, and let each run end in a different way. Return what Snakemake printed."""
    process = project.start(*ROWS)
    jobs = {name: project.wait_for_running(f"/{name}/") for name in ("cancelled", "limited", "lost")}
    cluster.run("scancel", jobs["cancelled"]["id"])
    # SLURM's shortest time limit is a minute, but a job's end can be moved earlier.
    for limit in ("TimeLimit=1", "EndTime=now+1"):
        cluster.run("scontrol", "update", f"JobId={jobs['limited']['id']}", limit)
    alone = [jobs["lost"]["id"]]
    running = ("squeue", "--noheader", "--format=%i")
    project.wait_until(lambda: cluster.run(*running).split() == alone, "the end of all other jobs")
    cluster.lose_node(jobs["lost"]["nodes"])
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 1, output[-4000:]
    cluster.start_node(jobs["lost"]["nodes"])
    project.wait_until(lambda: cluster.count_idle() == len(cluster.nodes), "the node's return")
    return output


def read_rows(project) -> dict[str, dict]:
    return {row["framework"]: row for row in project.read_rows()}


@pytest.fixture(scope="module")
def first(cluster, prepared, tmp_path_factory):
    """Return the results of the first call: the table's rows, the grid's figure, and the missing runs."""
    project = start_grid(cluster, prepared, tmp_path_factory.mktemp("endings") / "project")
    with full_disk(find_cell(project, "unwritten")):
        output = provoke(project, cluster)
        project.snakemake("available", *ROWS)
        project.snakemake("available", "--until", "draw_figures")
        figure = project.read("results/figures/one/run_grid.svg")
    planned = {path.split("/")[1] for path in project.planned_runs()}
    logs = {path: path.read_text() for path in (project.folder / "results" / "logs").rglob("*.log")}
    return SimpleNamespace(
        project=project, rows=read_rows(project), figure=figure, planned=planned, output=output, logs=logs
    )


def tell(first, name) -> str:
    """Return what Snakemake and the logs of a run said, for the message of a test that fails."""
    lines = [line for line in first.output.splitlines() if f"/{name}" in line or f"_{name}_" in line]
    return "\n".join([*lines, *(f"{path}:\n{text}" for path, text in first.logs.items() if name in str(path))])


ENDINGS = {
    "completing": ("completed", ""),
    "oversized": ("out_of_memory", "7 GiB"),
    "diverging": ("diverged", "training loss is nan in steps 3 to 24"),
    "cancelled": ("cancelled", "the job was cancelled (job "),
    "limited": ("time_limit", "SLURM ended the job at its time limit of 00:01:00"),
    "starving": ("host_out_of_memory", "memory"),
    "unwritten": ("disk_full", "No space left on device"),
    "stranded": ("no_rendezvous", "1 of 2 processes were not there after 5 s (rank 1)"),
    "lost": ("node_failed", "SLURM lost a node of the job (node"),
}
"""The status of each run, and words from its reason."""


def test_each_run_has_the_status_and_the_reason_of_its_end(first, cluster):
    assert ENDINGS.keys() - first.rows.keys() == (TOLD_BY_THE_RUN if cluster.accounting else set())
    for name, row in first.rows.items():
        status, words = ENDINGS[name]
        assert (row["status"], words in row["reason"]) == (status, True), f"{row}\n{tell(first, name)}"


@pytest.mark.parametrize("cluster", ["squeue"], indirect=True)
def test_a_full_disk_is_named_on_the_screen(first):
    assert "No space left on device" in tell(first, "unwritten") and "No space left on device" in first.output


def test_the_figure_of_the_grid_shows_each_status(first):
    for name in first.rows.keys() & set(ALONE):
        assert ENDINGS[name][1] in first.figure, name


def test_only_runs_without_an_outcome_are_still_missing(first):
    assert first.planned == UNFINISHED & first.rows.keys()


@pytest.mark.parametrize("cluster", ["squeue"], indirect=True)
def test_a_second_call_completes_them_and_gives_a_run_more_memory_if_it_had_too_little(first):
    project = first.project
    project.behave(starving__={"allocate_mb": 1100}, oversized__="out_of_memory", diverging__="diverge")
    (project.folder / "workflow" / "lib" / "sitecustomize.py").unlink()
    # On a busy machine, the processes of a run may start more than a few seconds apart.
    project.write_machine(memory_per_device_mb=MEMORY_PER_DEVICE_MB)
    project.edit_profile(retries=1)
    output = project.snakemake(*ROWS)
    rows = read_rows(project)
    assert {name for name in UNFINISHED if rows[name]["status"] != "completed"} == set(), output[-3000:]
    assert len(list(find_cell(project, "starving").glob("*/attempt.json"))) == 2, "too little in the second call, too"
    assert project.planned_runs() == []
