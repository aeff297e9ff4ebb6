"""Two devices are predicted from trainings on one, and are trained after that."""

import pandas as pd
import pytest

from howmanygpus.report.files import read_table
from howmanygpus.report.tables.helpers import learning_brackets
from project import Project, study

TARGET = 0.9
OPTIMIZER = {"name": "sgd", "learning_rate": 0.02, "momentum": 0.9, "lr_scaling": "linear"}
OPTIMIZER |= {"lr_reference_batch_size": 32, "lr_warmup_epochs": 1}
STUDY = study(
    **{"frameworks": ["pytorch_ddp"], "devices": ["cpu"], "num_gpus": [1], "per_device_batch_size": [32, 64]},
    **{"steps": None, "epochs": 12, "repeats": 3, "optimizer": OPTIMIZER, "quality": {"thresholds": [TARGET]}},
)
NOISE = 0.1
"""Part by which rates differ between two calls on a machine whose other cores may be busy."""


@pytest.fixture(scope="module")
def predicted_and_measured(tmp_path_factory, environment_record):
    """Return the predictions from one device, and the tables of a second call that also trains on two."""
    project = Project(tmp_path_factory.mktemp("predicted") / "project", fakes=())
    project.take_environment(environment_record("pytorch-cpu"))
    made = []
    for check in (False, True):
        project.write_config(seen=STUDY | {"predict": {"num_gpus": [2], "check": check}})
        project.snakemake("results/tables/seen/answer.txt")
        names = ("runs", "predictions", "time_to_accuracy")
        made.append({name: read_table(project.folder / f"results/tables/seen/{name}.tsv") for name in names})
        made[-1]["answer"] = project.read("results/tables/seen/answer.txt")
    return made


def choose(table: pd.DataFrame, batch: int, **more) -> pd.DataFrame:
    """Return the rows with two devices of a global batch."""
    asked = {"num_gpus": 2, "global_batch_size": batch} | more
    return table[(table[list(asked)] == list(asked.values())).all(axis=1)]


def skip_if_disturbed(calls: list[dict]) -> None:
    """Other work changes the rates from one call to the next, and runs that it disturbed are not recommended."""
    if any(call["runs"]["disturbed"].any() for call in calls):
        pytest.skip("other work on this machine disturbed some runs")


@pytest.mark.parametrize("batch", [64, 128])
def test_the_rate_of_two_devices_is_within_the_bracket_from_one(predicted_and_measured, batch):
    before, after = predicted_and_measured
    assert set(before["runs"]["num_gpus"]) == {1}
    (row,) = choose(before["predictions"], batch, scaling_mode="weak").to_dict("records")
    skip_if_disturbed(predicted_and_measured)
    rates = choose(after["runs"], batch)["images_per_s"]
    assert len(rates) == STUDY["repeats"]
    low, high = row["images_per_s_low"], row["images_per_s_high"]
    assert low * (1 - NOISE) <= rates.median() <= high * (1 + NOISE), (low, high, list(rates))
    (checked,) = choose(after["predictions"], batch, scaling_mode="weak").to_dict("records")
    assert checked["measured_images_per_s"] == pytest.approx(rates.median(), rel=1e-3)
    assert checked["error_frac"] == pytest.approx(checked["images_per_s"] / rates.median() - 1, abs=1e-3)


def test_the_steps_of_twice_the_largest_batch_are_within_the_bracket(predicted_and_measured):
    """Both are intervals: a training is evaluated after each epoch, and its repeats have other seeds."""
    before, after = predicted_and_measured
    (row,) = choose(before["predictions"], 128, scaling_mode="weak").to_dict("records")
    assert before["runs"]["global_batch_size"].max() == 64
    times = choose(after["time_to_accuracy"], 128)
    assert times["reached"].all()
    missed, reached = times["missed_images"].min() / 128, times["images_seen"].max() / 128
    tolerance = learning_brackets.TOLERANCE
    low, high = row["steps_low"] * (1 - tolerance), row["steps_high"] * (1 + tolerance)
    assert low <= reached and missed <= high, (row["steps_low"], row["steps_high"], missed, reached)
    # All batches below the critical one need as many images, and all beyond it as many steps, a factor of two apart.
    assert row["steps_high"] / row["steps_low"] < 3


def test_the_answer_says_predicted_until_two_devices_are_measured(predicted_and_measured):
    skip_if_disturbed(predicted_and_measured)
    before, after = predicted_and_measured
    assert "Predicted, not measured" in before["answer"] and "2 x cpu" in before["answer"]
    assert "Predicted, not measured" not in after["answer"]


def test_a_call_for_one_study_trains_no_other_for_its_predictions(project, environment_record):
    """The checks of each study widen the brackets of the other if both are made; a second call has nothing to do."""
    project.take_environment(environment_record("pytorch-cpu"))
    project.leave_figures_blank()
    one = study(frameworks=["sleeping"], devices=["cpu"], predict={"num_gpus": [4]})
    project.write_config(first=one, second=one)
    assert {run.split("/")[0] for run in project.planned_runs("first")} == {"first"}
    project.snakemake()
    assert project.planned() == []
    for name in ("first", "second"):
        table = read_table(project.folder / f"results/tables/{name}/prediction_checks.tsv")
        assert list(table["num_gpus"]) == [2]
