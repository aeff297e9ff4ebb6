"""What the queue and the messages show of a call, and how many of its runs go at the same time."""

import itertools

import pytest

from project import RUNS, study


def read_spans(project) -> list[tuple[float, float]]:
    """Return the start and the end of each run's job."""
    spans = [(record["job"]["started_at"], record["wall_time_s"]) for record in project.read_records().values()]
    return sorted((start, start + wall_time_s) for start, wall_time_s in spans)


def test_no_account_is_guessed(project, cluster):
    project.write_config(grid=study(frameworks=["sleeping"], devices=["fake"], num_gpus=[1], per_device_batch_size=[8]))
    # A message may name the folder of this test.
    output = project.snakemake(*RUNS).replace(str(project.folder), "")
    assert "account" not in output and "invalid option" not in output


@pytest.mark.parametrize("concurrent_runs", [1, None])
def test_runs_go_one_at_a_time_if_the_machine_file_says_so(project, concurrent_runs):
    project.write_machine(slurm={"concurrent_runs": concurrent_runs})
    options = {"num_gpus": [1, 2], "per_device_batch_size": [8]}
    project.write_config(grid=study(frameworks=["sleeping", "pacing"], devices=["fake"], **options))
    project.behave(sleeping={"sleep_s": 3}, pacing={"sleep_s": 3})
    project.snakemake(*RUNS)
    spans = read_spans(project)
    apart = all(one[1] <= other[0] + 1 for one, other in itertools.pairwise(spans))
    assert len(spans) == 4 and apart == (concurrent_runs == 1), spans
