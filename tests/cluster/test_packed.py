"""One job does all runs of up to one node. What it requests is read from the profile."""

import itertools

import pytest

from howmanygpus.report.files import read_table
from project import study
from slurm.cluster import GPUS_PER_NODE


def test_runs_of_one_node_are_done_in_one_job_and_the_others_left(project):
    options = {"num_gpus": [1, 4, 8], "per_device_batch_size": [8]}
    project.write_config(grid=study(frameworks=["sleeping", "pacing"], devices=["fake"], **options))
    project.submit_packed("grid")
    output = "".join(path.read_text() for path in project.folder.glob("howmanygpus-packed-*.log"))
    records = project.read_records().values()
    assert sorted(record["spec"]["num_gpus"] for record in records) == [1, 1, 4, 4], output[-3000:]
    assert len({record["job"]["id"] for record in records}) == 1, "one job for all of them"
    assert all(record["job"]["packed"] for record in records)
    assert {record["job"]["requested"] for record in records} == {f"gres:gpu:fake:{GPUS_PER_NODE}"}
    moments = sorted((record["started_at"], record["finished_at"]) for record in records)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(moments)), "one after the other"
    jobs = read_table(project.folder / "results" / "tables" / "grid" / "jobs.tsv")
    assert jobs["kind"].value_counts().to_dict() == {"run": 4, "probe": 1, "allocation": 1}
    allocation, runs = jobs[jobs["kind"] == "allocation"].iloc[0], jobs[jobs["kind"] == "run"]
    assert runs["billed_device_hours"].isna().all(), "their allocation is billed"
    assert allocation["billed_device_hours"] == pytest.approx(GPUS_PER_NODE * allocation["hours"], rel=1e-4)
    assert allocation["billed_device_hours"] > runs["device_hours"].sum() > 0
    assert [path.split("_")[3] for path in project.planned_runs()] == ["gpus8"], "only pacing goes over nodes"
