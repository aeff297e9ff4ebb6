"""The table of jobs has every job with devices, and its total is what SLURM's accounting says."""

import re

import pytest

from hanging import HANG_S
from helpers.messages import says
from howmanygpus.report.files import read_table
from howmanygpus.site.slurm import list_accounted
from project import study
from slurm.cluster import GPUS_PER_NODE, wait_for
from slurm.project import ClusterProject

PRICE_PER_HOUR = 2.0
SACCT = ("sacct", "--allocations", "--noheader", "--parsable2", "--duplicates", "--allusers")
ALLREDUCE = "workflow/lib/howmanygpus/measure/allreduce.py"


@pytest.fixture(scope="module")
def cluster(run_cluster):
    with run_cluster(accounting=True) as started:
        yield started


def have_all_ended(cluster) -> bool:
    """Whether SLURM's accounting knows of no job that goes on. It gets to know of a job's end after squeue does."""
    states = cluster.run(*SACCT, "--format=State").split()
    return not {"RUNNING", "PENDING"}.intersection(states)


def count_device_hours(cluster) -> dict[str, float]:
    """Return the device-hours of all jobs that were given devices, by job id, as SLURM's accounting has them."""
    wait_for(lambda: have_all_ended(cluster), "the ends of all jobs", cluster.folder / "slurmdbd.log")
    hours = {}
    for line in cluster.run(*SACCT, "--format=JobIDRaw,ElapsedRaw,AllocTRES").splitlines():
        job_id, elapsed_s, allocated = line.split("|")
        if found := re.search(r"gres/gpu=(\d+)", allocated):
            hours[job_id] = hours.get(job_id, 0.0) + int(found[1]) * int(elapsed_s) / 3600
    return hours


@pytest.fixture(scope="module")
def billed(cluster, prepared, tmp_path_factory, environment_record):
    """Return a project in whose first call a gate and a run crash, and a job is cancelled. The second call completes.

    The device count of some jobs is less than that of their nodes, which are exclusive: SLURM gives them all devices.
    """
    project = ClusterProject(tmp_path_factory.mktemp("bill") / "project", cluster)
    project.write_machine(slurm={"preflight": True}, price_per_hour=PRICE_PER_HOUR, nodes="exclusive")
    project.replace(ALLREDUCE, SIZES_MIB=(1, 2))
    project.take_prepared(prepared)
    project.take_environment(environment_record("pytorch-cpu"))
    for name in ("sleeping", "dozing"):
        project.add_fake(name)
    project.leave_figures_blank()
    values = {"devices": ["fake"], "num_gpus": [1, 2], "per_device_batch_size": [8]}
    project.write_config(
        gated=study(frameworks=["sleeping"], parity="report", **values), other=study(frameworks=["dozing"], **values)
    )
    project.behave(parity__sleeping="crash", dozing__base__gpus1="crash", dozing__base__gpus2="wait_for_file")
    process = project.start()
    cluster.run("scancel", project.wait_for_running("_gpus2_")["id"])
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 1, output[-4000:]
    project.behave()
    project.snakemake()
    return project


@pytest.fixture(scope="module")
def told(billed, cluster):
    """Return the device-hours of both calls by SLURM's accounting. Tests that make another call ask for it before."""
    return count_device_hours(cluster)


def test_the_client_asks_the_database_for_fields_that_it_has(told, cluster, monkeypatch):
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    jobs = list_accounted(list(told))
    assert {job.id for job in jobs} == set(told) and all(job.started_at < job.ended_at for job in jobs)


def test_the_table_has_every_job_with_devices_and_the_total_of_slurms_accounting(billed, told):
    jobs = read_table(billed.folder / "results" / "tables" / "jobs.tsv")
    assert set(jobs["job_id"].astype(str)) == set(told)
    assert set(jobs["counted_by"]) == {"SLURM"}
    own = jobs.assign(job_id=jobs["job_id"].astype(str)).groupby("job_id")["billed_device_hours"].sum()
    assert own.to_dict() == pytest.approx(told, rel=1e-5)
    assert jobs["billed_device_hours"].sum() == pytest.approx(sum(told.values()), rel=1e-5)
    assert jobs["cost"].sum() == pytest.approx(PRICE_PER_HOUR * sum(told.values()), rel=1e-5)
    assert (jobs["billed_device_hours"] / jobs["hours"]).round(3).eq(GPUS_PER_NODE).all(), "a node of its own"


def test_each_job_record_has_its_kind_and_its_outcome(billed):
    jobs = read_table(billed.folder / "results" / "tables" / "jobs.tsv")
    ends = jobs.drop_duplicates("record").groupby("kind")["status"].agg(sorted).to_dict()
    assert ends == {
        "allreduce": ["completed"],
        "gate": ["completed", "crashed", "crashed", "crashed"],
        "probe": ["completed"],
        "run": ["cancelled", *["completed"] * 4, "crashed"],
    }
    assert set(jobs.loc[jobs["kind"] == "run", "study"]) == {"gated", "other"}
    assert set(jobs.loc[jobs["kind"] == "gate", "study"]) == {"gated"}, "the other study skips the gate"
    for kind in ("probe", "allreduce"):
        shared = jobs[jobs["kind"] == kind]
        assert sorted(shared["study"]) == ["gated", "other"] and shared["hours"].nunique() == 1
    assert jobs["nodes"].str.fullmatch(r"node\d").all()


def test_the_answer_has_the_price_of_everything(billed, told):
    answer = billed.read("results/tables/answer.md")
    total = sum(told.values())
    together = answer.partition("All studies together, each shared job once")[2]
    price = f"{PRICE_PER_HOUR * total:.4g} EUR"
    assert says(together, f"{total:.3g} device-hours", price, "Billed device-hours: runs ")
    for purpose in ("failed attempts", "parity gate", "probe", "all-reduce"):
        assert f", {purpose} " in together


@pytest.mark.usefixtures("told")
def test_a_job_that_writes_no_record_is_billed(billed, cluster):
    """As on a full disk. Every other job has written its own, so that no note of a submission is left."""
    jobs = billed.folder / "results" / "jobs"
    assert list(jobs.rglob("*.submitted")) == []
    next((billed.folder / "results" / "runs" / "other").rglob("*gpus1*/run.json")).unlink()
    script = billed.folder / "workflow" / "scripts" / "train.py"
    text = script.read_text()
    script.write_text(text.replace("import argparse\n", "raise SystemExit('told to end')\n", 1))
    billed.snakemake("other", "--until", "train", expect=1)
    script.write_text(text)
    billed.snakemake("other", "--until", "make_tables")
    hours, told = count_device_hours(cluster), read_table(billed.folder / "results" / "tables" / "other" / "jobs.tsv")
    runs = told[(told["kind"] == "run") & (told["num_gpus"] == 1)]
    assert runs["status"].tolist() == ["crashed", "completed", "crashed", "completed"]
    (last,) = runs["job_id"].astype(str)[2:3]
    assert runs["billed_device_hours"].iloc[2] == pytest.approx(hours[last], rel=1e-5)
    assert list(jobs.rglob("*.submitted")) == []


@pytest.mark.usefixtures("told")
def test_a_run_that_is_done_again_is_billed_twice(billed, cluster):
    run = billed.folder / "results" / "runs" / "gated" / "sleeping"
    next(run.rglob("*gpus1*/run.json")).unlink()
    billed.snakemake("gated", "--until", "make_tables")
    jobs = read_table(billed.folder / "results" / "tables" / "gated" / "jobs.tsv")
    again = jobs[(jobs["kind"] == "run") & (jobs["num_gpus"] == 1)]
    assert again["status"].tolist() == ["completed", "completed"]
    hours, job_ids = count_device_hours(cluster), again["job_id"].astype(str)
    assert set(job_ids) <= set(hours)
    assert again["billed_device_hours"].sum() == pytest.approx(sum(hours[job_id] for job_id in job_ids), rel=1e-5)
