"""What the queue and the messages show of a call, and how many of its runs go at the same time."""

import itertools

import pytest

from hanging import HANG_S
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


@pytest.fixture
def four_runs(project):
    """Return a project with four runs of up to two devices."""
    options = {"num_gpus": [1, 2], "per_device_batch_size": [8]}
    project.write_config(grid=study(frameworks=["sleeping", "pacing"], devices=["fake"], **options))
    return project


def test_runs_go_one_at_a_time_if_the_machine_file_says_so(four_runs):
    four_runs.write_machine(slurm={"concurrent_runs": 1})
    four_runs.behave(sleeping={"sleep_s": 3}, pacing={"sleep_s": 3})
    four_runs.snakemake(*RUNS)
    spans = read_spans(four_runs)
    assert len(spans) == 4 and all(one[1] <= other[0] + 1 for one, other in itertools.pairwise(spans)), spans


def test_runs_go_at_the_same_time_otherwise(four_runs, cluster):
    four_runs.write_machine(slurm={"concurrent_runs": None})
    four_runs.behave(sleeping="wait_for_file", pacing="wait_for_file")
    process = four_runs.start(*RUNS)

    def count_running():
        names = cluster.run("squeue", "--noheader", "--states=RUNNING", "--format=%k").split()
        return sum(name.startswith("rule_train_") for name in names)

    four_runs.wait_until(lambda: count_running() == 4, "all four runs at the same time")
    (four_runs.folder / "go_on").touch()
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, output[-3000:]
