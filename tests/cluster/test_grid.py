"""Test a grid whose runs are jobs: their requests, their allocations, their processes and the results."""

import itertools
import json
import re
from collections import Counter, defaultdict

import pytest

from howmanygpus.invocation.executor import KEPT
from howmanygpus.report.files import read_table
from project import Project, study
from slurm.cluster import GPUS_PER_NODE
from slurm.project import ClusterProject

COUNTS = [1, 2, 4, 8]
WITNESS = """
import json, os, sys
from pathlib import Path
if any(word.endswith("/workflow/scripts/train.py") for word in sys.orig_argv):
    import psutil
    above = [each.cmdline() for each in psutil.Process().parents()]
    seen = {"variables": sorted(os.environ), "snakemakes": sum("snakemake" in words for words in above)}
    path = Path("witness") / os.environ["SLURM_JOB_ID"]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(seen))
"""
"""Code that records, in a run's job, the launcher's environment variables and the number of Snakemakes above it."""


def list_products(project):
    """List the tables and figures."""
    results = project.folder / "results"
    return {str(path.relative_to(results)) for kind in ("tables", "figures") for path in (results / kind).rglob("*.*")}


@pytest.fixture(scope="module")
def grid(cluster, tmp_path_factory):
    """Return a project with 8 finished runs of two process models on 1 to 8 devices."""
    project = ClusterProject(tmp_path_factory.mktemp("grid") / "project", cluster)
    scratch = str(tmp_path_factory.mktemp("scratch"))
    project.write_machine(slurm={"preflight": True, "scratch": scratch}, price_per_hour=2.0, billed="node")
    project.replace("workflow/lib/howmanygpus/measure/allreduce.py", SIZES_MIB=(1, 2))
    project.leave_figures_blank()
    (project.folder / "workflow" / "lib" / "sitecustomize.py").write_text(WITNESS)
    project.add_fake("sleeping")
    project.add_fake("pacing", launcher="per_device")
    options = {"num_gpus": COUNTS, "per_device_batch_size": [8]}
    project.write_config(grid=study(frameworks=["sleeping", "pacing"], devices=["fake"], **options))
    project.snakemake()
    return project


def test_every_run_gets_the_resources_of_its_device_count(grid):
    runs = grid.read_records()
    assert Counter(record["status"] for record in runs.values()) == {"completed": 7}, "one process has one node"
    for path, record in runs.items():
        spec, job = record["spec"], record["job"]
        num_nodes = -(-spec["num_gpus"] // GPUS_PER_NODE)
        per_node = spec["num_gpus"] // num_nodes
        assert job["requested"] == f"gres:gpu:fake:{per_node}", path
        allocated = dict(part.split("=") for part in job["allocated"].split(","))
        assert (allocated["node"], allocated["cpu"]) == (str(num_nodes), str(2 * spec["num_gpus"])), path
        devices = {process["hostname"]: process["visible_devices"] for process in record["processes"]}
        assert [len(each.split(",")) for each in devices.values()] == [per_node] * num_nodes, path


def test_a_job_starts_one_snakemake_and_hides_its_request_from_the_run(grid):
    seen = [json.loads(path.read_text()) for path in (grid.folder / "witness").iterdir()]
    assert [each["snakemakes"] for each in seen] == [1] * 7
    known = {name for each in seen for name in each["variables"] if name.startswith(("SLURM_", "SRUN_", "SBATCH_"))}
    assert "SLURM_JOB_ID" in known and all(name.startswith(KEPT) for name in known)


def test_no_process_started_twice(grid):
    for path, record in grid.read_records().items():
        expected = 1 if record["spec"]["framework"] == "sleeping" else record["spec"]["num_gpus"]
        assert [process["rank"] for process in record["processes"]] == list(range(expected)), path
        assert {process["step"] for process in record["processes"]} == {"0"}, "one step of srun"


def test_jobs_of_the_same_time_and_node_had_different_devices(grid):
    held = defaultdict(list)
    for path, record in grid.read_records().items():
        ended = record["job"]["started_at"] + record["wall_time_s"]
        for process in record["processes"]:
            for device in process["visible_devices"].split(","):
                held[process["hostname"], device].append((record["job"]["started_at"], ended, path))
    for device, uses in held.items():
        by_run = sorted(set(uses))
        assert all(one[1] <= other[0] + 1 for one, other in itertools.pairwise(by_run)), (device, by_run)


def test_tables_and_figures_do_not_mix_machines(grid, tmp_path):
    local = Project(tmp_path / "local", fakes=["sleeping", "pacing"])
    local.leave_figures_blank()
    options = {"num_gpus": [1, 2], "per_device_batch_size": [8]}
    local.write_config(grid=study(frameworks=["sleeping", "pacing"], devices=["cpu"], **options))
    local.snakemake()
    # The cluster has an interconnect, a price and batch scripts.
    more = {"tables/probes.tsv", "tables/grid/allreduce.tsv", "tables/grid/run.sbatch"}
    more |= {f"figures/grid/{figure}.{form}" for figure in ("allreduce", "price") for form in ("svg", "png")}
    assert list_products(grid) - list_products(local) == more
    assert list_products(local) <= list_products(grid)
    runs = read_table(grid.folder / "results" / "tables" / "runs.tsv")
    assert list(runs) == list(read_table(local.folder / "results" / "tables" / "runs.tsv"))
    assert len(runs) == 8 and grid.planned() == []


def test_runs_are_accounted_for(grid):
    runs = read_table(grid.folder / "results" / "tables" / "runs.tsv")
    done = runs[runs["status"] == "completed"]
    assert (done["queue_wait_s"] >= 0).all() and (done["device_hours"] > 0).all()
    assert (done["billed_device_hours"] / done["device_hours"]).round(3).eq(1).all(), (
        "its share of nodes that jobs share"
    )
    assert (done["cost"] / done["billed_device_hours"]).round(3).eq(2.0 / GPUS_PER_NODE).all()


def test_a_dry_run_expects_jobs_to_take_as_long_as_slurm_told(grid):
    output = grid.snakemake("--dry-run", "--forcerun", "probe_device")
    (line,) = [line for line in output.splitlines() if line.strip().startswith("probes and all-reduces")]
    assert "the same steps" in line and int(re.search(r"(\d+) (s|min)  ", line)[1]) > 0, line


def test_data_were_staged_in_a_phase_of_its_own(grid):
    runs = read_table(grid.folder / "results" / "tables" / "runs.tsv")
    done = runs[runs["status"] == "completed"]
    assert (done["staging_s"] >= 0).all() and (done["staging_s"] < done["init_s"]).all()


def test_the_probe_saw_the_nodes_devices_and_the_preflight_their_all_reduce(grid):
    probes = read_table(grid.folder / "results" / "tables" / "probes.tsv").set_index("what")["value"]
    assert probes["visible devices"] == ",".join(map(str, range(GPUS_PER_NODE)))
    table = read_table(grid.folder / "results" / "tables" / "grid" / "allreduce.tsv")
    assert sorted(set(table["num_gpus"])) == COUNTS[1:] and (table["bus_gb_per_s"] > 0).all()
