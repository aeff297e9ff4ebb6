"""The answer says what the recommendation makes of its devices and of its wall time, if anybody knows it."""

import pandas as pd
import pytest

from helpers.answers import complete, find_doubt, make_runs
from howmanygpus.report.answer.texts import render_answer
from howmanygpus.report.columns import IDENTITY
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from howmanygpus.report.tables.utilisation import COLUMNS
from howmanygpus.report.telemetry import ACTIVITY

GPU = "NVIDIA H200"


def answer(used: dict, **changes) -> tuple[dict, str]:
    """Return the facts and the text of a study of one configuration. used: of the table utilisation."""
    row = {"framework": "a", "device_model": GPU, "precision": "bf16", "wall_time_s": 100.0}
    runs, evaluations = make_runs(*[row | {"run_dir": f"results/runs/{number}"} | changes for number in range(3)])
    table = pd.DataFrame([own[IDENTITY].to_dict() | used for _, own in runs.iterrows()], columns=list(COLUMNS))
    times = compute_time_to_accuracy(runs, evaluations, {"metric": "accuracy", "thresholds": []})
    facts = complete(runs, times, utilisation=table)
    return facts, " ".join(render_answer(facts, "md").split())


@pytest.mark.parametrize(
    ("source", "words"),
    [("network", "network"), ("program", "program reported"), ("parameters", "6 operations for each parameter")],
)
def test_the_answer_has_the_mfu_and_where_the_operations_are_from(source, words):
    facts, text = answer({"mfu": 0.384, "flops_from": source, "flops_per_image": 1e12})
    assert facts["details"]["uses"][0]["mfu"] == 0.384
    assert "38.4 % of the bf16 peak" in text and words in text


def test_an_mfu_above_one_is_refused_with_the_remedy():
    _, text = answer({"mfu": 1.9, "flops_from": "program", "flops_per_image": 1e12})
    assert "190 % cannot be" in text and "Set `precision`" in text


@pytest.mark.parametrize("source", ["network", "program"])
def test_without_a_peak_only_a_program_gets_the_rate_of_its_operations(source):
    _, text = answer({"flops_from": source, "flops_per_image": 5e9}, images_per_s=200.0)
    assert ("1 TFLOPS of each device" in text) == (source == "program") and "(MFU)" not in text


def test_the_activity_of_the_devices_is_said_or_why_it_is_missing():
    _, text = answer(dict(zip(ACTIVITY, (0.815, 0.32, 0.44), strict=True)))
    assert all(share in text for share in ("81.5 % of the SMs", "in 32 % of the time", "44 % of the memory bandwidth"))
    _, text = answer({"activity_missing": "Not Supported"})
    assert "GPM" in text and "(Not Supported)" in text
    _, text = answer({})
    assert "GPM" not in text and "MFU" not in text, "a CPU has none"


@pytest.mark.parametrize(("checkpoint_s", "is_named"), [(9.0, False), (10.0, True), (45.0, True)])
def test_checkpoints_are_named_from_a_tenth_of_the_wall_time_on(checkpoint_s, is_named):
    facts, text = answer({}, checkpoint_s=checkpoint_s)
    assert (f"Checkpoints take {checkpoint_s:g} %" in text) == is_named
    assert (facts["details"]["uses"][0]["checkpoint_frac"] is not None) == is_named


def test_a_checkpoint_that_never_ended_is_in_doubt():
    facts, _ = answer({}, unended_checkpoint=40)
    assert "3 runs" in (doubt := find_doubt(facts, "unended_checkpoint")) and "after step 40" in doubt
    facts, _ = answer({})
    assert not find_doubt(facts, "unended_checkpoint")
