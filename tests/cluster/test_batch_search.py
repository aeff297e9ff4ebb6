"""On a cluster, the search for the largest batch is a job with one device, whose tries are steps of SLURM."""

import json

from project import study

ANSWERS = ("--until", "merge_answers")
TOO_LARGE = {f"batch_search__pacing__base__gpus1_batch{size}_": "out_of_memory" for size in (48, 56, 64)}


def test_a_search_is_one_job_with_one_device(project):
    values = {"devices": ["fake"], "num_gpus": [2], "per_device_batch_size": "max"}
    project.write_config(small=study(frameworks=["pacing"], **values))
    project.behave(**TOO_LARGE)
    project.snakemake(*ANSWERS)
    results = project.folder / "results"
    (record,) = (json.loads(path.read_text()) for path in (results / "batch_sizes").glob("*.json"))
    assert [each["batch"] for each in record["tries"]] == [32, 64, 48, 40, 40]
    assert (record["largest"], record["limit"]) == (40, "memory")
    (job,) = (json.loads(path.read_text()) for path in (results / "jobs" / "batch_search").rglob("*.json"))
    assert job["num_gpus"] == 1 and job["status"] == "completed" and job["job"]["id"]
    (row,) = project.read_rows()
    assert (row["status"], row["num_gpus"], row["per_device_batch_size"]) == ("completed", "2", "32")
    assert "pacing on fake: 40 images (memory; runs take 32)" in project.read("results/tables/answer.md")
