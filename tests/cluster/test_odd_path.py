"""A checkout in a folder whose name has spaces, an umlaut and an apostrophe submits its runs like any other."""

from project import ODD_FOLDER, ROWS, study
from slurm.project import ClusterProject


def test_runs_are_jobs_in_a_folder_with_an_odd_name(cluster, prepared, tmp_path):
    project = ClusterProject(tmp_path / ODD_FOLDER / "project", cluster, scratch=None)
    project.take_prepared(prepared)
    scratch = tmp_path / f"scratch of {ODD_FOLDER}"
    scratch.mkdir()
    project.write_machine(slurm={"scratch": str(scratch)})
    project.add_fake("sleeping")
    project.add_fake("pacing", launcher="per_device")
    options = {"num_gpus": [2, 8], "per_device_batch_size": [8]}
    project.write_config(grid=study(frameworks=["sleeping", "pacing"], devices=["fake"], **options))
    project.snakemake(*ROWS)
    assert [row["status"] for row in project.read_rows()].count("completed") == 3, "sleeping has one process"
    assert project.planned_runs() == []
