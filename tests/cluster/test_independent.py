"""A job of a cluster can do independent runs on all devices of its node."""

from project import ROWS, study


def test_each_process_of_a_step_does_a_run_of_its_own(project):
    alone = {"alone": {"independent": True}}
    project.write_config(
        small=study(frameworks=["sleeping"], devices=["fake"], num_gpus=[4, 8], steps=6, variants=alone)
    )
    project.behave(sleeping__alone={"step_s": 0.05})
    project.snakemake(*ROWS)
    ((path, record),) = project.read_records().items()
    assert "_gpus4_" in path and record["status"] == "completed"
    assert len(record["devices"]) == record["num_processes"] == 4 and record["images_seen"] == 4 * 6 * 64
    assert [process["local_rank"] for process in record["processes"]] == [0, 1, 2, 3]
    assert len({process["pid"] for process in record["processes"]}) == 4
    reasons = {row["num_gpus"]: (row["status"], row["reason"]) for row in project.read_rows()}
    assert reasons["4"] == ("completed", "")
    assert reasons["8"] == ("unsupported", "independent runs are compared on one node, and 8 devices are on 2")
