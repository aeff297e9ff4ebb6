"""The answer says no more than the runs do: prices of whole runs, and why there is no rate."""

import pandas as pd
import pytest

from answered import find_line, write_answer
from howmanygpus.report.answer.study import describe_devices, describe_left_out, describe_nothing
from howmanygpus.report.files import read_table, write_table


def test_the_bill_of_attempts_is_not_shown_as_the_price_of_a_run():
    """Preempted runs have the cost of their attempts, which is less than that of a run."""
    billed = {"currency": "EUR", "device_hours": 40 / 3600, "wall_time_s": 30.0}
    preempted = {"framework": "a", "status": "preempted", "cost": 0.5, "currency": "EUR"}
    text = write_answer({"framework": "a", "cost": 9.0, **billed}, preempted, preempted)
    assert "9 EUR for the whole run (one repeat)" in find_line(text, "Cheapest")


def test_prices_that_cannot_be_compared_are_not_said_to_be_missing():
    billed = {"cost": 9.0, "device_hours": 40 / 3600, "wall_time_s": 30.0}
    text = write_answer({"framework": "a", "currency": "EUR"} | billed, {"framework": "b", "currency": "USD"} | billed)
    assert "2 device-seconds of training" in find_line(text, "Cheapest")
    assert "(not all have a price in one currency)." in find_line(text, "Cheapest")
    assert "no price" not in text


def test_completed_runs_without_a_rate_are_no_missing_runs():
    """A run has no rate if it is shorter than its warm-up."""
    text = write_answer({"framework": "a", "images_per_s": None}, {"framework": "b", "images_per_s": None})
    assert "- 2 runs completed without a rate: no step came after the warm-up" in text
    assert "No run has completed" not in text
    assert find_line(text, "Fastest to accuracy 0.9").startswith("- Fastest to accuracy 0.9: a on 1 cpu device")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("missing", "No run on real images has completed, so there is no answer yet."),
        ("diverged", "All runs on real images have ended, and none gave an answer: why (1 run)."),
    ],
)
def test_runs_on_random_images_are_no_answer_and_are_not_denied(status, said):
    runs = pd.DataFrame({"input": ["arrays", "synthetic"], "status": [status, "completed"], "reason": ["why", None]})
    assert describe_nothing(runs) == said


@pytest.mark.parametrize("label", ["3", "7; 9", "1e5"])
def test_a_label_whose_name_is_a_number_is_named(tmp_path, label):
    write_table(tmp_path / "t.tsv", pd.DataFrame([{"metric": "macro_auc", "left_out": label}]))
    assert describe_left_out(read_table(tmp_path / "t.tsv")).endswith(f": {label.replace('; ', ', ')}.")


def test_the_gates_numbers_of_nodes_are_numbers(tmp_path):
    """In other tables, `nodes` has the names of hosts."""
    write_table(tmp_path / "parity.tsv", pd.DataFrame([{"devices": 2, "nodes": 2}]))
    assert (read_table(tmp_path / "parity.tsv")["nodes"] == 2).all()


@pytest.mark.parametrize("host", ["123456789012", "41e706332210"])
def test_a_host_whose_name_looks_like_a_number_is_named(tmp_path, host):
    """Containers have hexadecimal names."""
    run = {"device": "cpu", "num_gpus": 1, "device_model": "c", "nodes": host}
    write_table(tmp_path / "t.tsv", pd.DataFrame([run, run | {"num_gpus": 2}]))
    assert describe_devices(read_table(tmp_path / "t.tsv")) == [f"1 and 2 x cpu (c; {host})"]
