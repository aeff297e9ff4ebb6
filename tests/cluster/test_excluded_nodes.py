"""Nodes that the profile excludes get no job, although the node's state would allow it."""

from project import ROWS, study


def test_a_run_avoids_a_node_that_the_profile_excludes(project, cluster):
    first = cluster.run("srun", "printenv", "SLURMD_NODENAME").strip()
    project.edit_profile(**{"slurm-exclude-failed-nodes": first})
    project.write_config(grid=study(frameworks=["sleeping"], devices=["fake"], num_gpus=[1], per_device_batch_size=[8]))
    project.snakemake(*ROWS)
    (row,) = project.read_rows()
    assert row["status"] == "completed" and row["nodes"] != first
