"""Two nodes are predicted from one and the preflight, and the prediction is measured."""

import pytest

from howmanygpus.report.files import read_table
from howmanygpus.report.tables.helpers.rate_brackets import TOLERANCE
from project import study

STEP_S = 1.0
"""So long that the all-reduce of the preflight, which steps that sleep do not wait for, is little beside it."""


def test_two_nodes_are_predicted_from_one_and_the_preflight(project, environment_record):
    """Steps sleep, so that eight devices have eight times the rate of one. Nothing is trained on the predicted count
    before the table predicts it from the others.
    """
    project.write_machine(slurm={"preflight": True})
    project.replace("workflow/lib/howmanygpus/measure/allreduce.py", SIZES_MIB=(1, 2))
    project.take_environment(environment_record("pytorch-cpu"))
    project.leave_figures_blank()
    options = {"num_gpus": [1, 2, 4], "predict": {"num_gpus": [8, 16], "check": True}, "steps": 12}
    project.write_config(s=study(frameworks=["pacing"], devices=["fake"], per_device_batch_size=[8], **options))
    project.behave(pacing__base={"step_s": STEP_S})
    project.snakemake()
    allreduce = read_table(project.folder / "results/tables/s/allreduce.tsv")
    assert {(8, 2), (4, 1)} <= set(zip(allreduce["num_gpus"], allreduce["num_nodes"], strict=True))
    table = read_table(project.folder / "results/tables/s/predictions.tsv")
    checked, beyond = table.sort_values("num_gpus").to_dict("records")
    assert (checked["num_gpus"], checked["num_nodes"], beyond["num_gpus"]) == (8, 2, 16)
    # A measured median itself is known to TOLERANCE.
    low, high = checked["images_per_s_low"] / (1 + TOLERANCE), checked["images_per_s_high"] * (1 + TOLERANCE)
    assert low <= checked["measured_images_per_s"] <= high
    assert checked["measured_images_per_s"] == pytest.approx(8 * 8 / STEP_S, rel=0.15)
    assert beyond["checked_error_frac"] == checked["error_frac"]
    answer = project.read("results/tables/s/answer.txt")
    # Nothing stands beside runs that other work on the machine disturbed.
    assert "8 devices" in answer or "No recommendation: other work on the machine disturbed" in answer
