"""The answer says no more than the runs do: prices of whole runs, and why there is no rate."""

import pandas as pd
import pytest

from helpers.answers import make_facts
from howmanygpus.report.answer.details import list_devices
from howmanygpus.report.files import read_table, write_table


def test_the_bill_of_attempts_is_not_shown_as_the_price_of_a_run():
    """Preempted runs have the cost of their attempts, which is less than that of a run."""
    billed = {"currency": "EUR", "device_hours": 40 / 3600, "wall_time_s": 30.0}
    preempted = {"framework": "a", "status": "preempted", "cost": 0.5, "currency": "EUR"}
    facts = make_facts({"framework": "a", "cost": 9.0, **billed}, preempted, preempted)
    assert facts["decisions"][0]["recommended"]["cost"]["median"] == pytest.approx(9 * (1 - 21 / 40))


def test_prices_in_two_currencies_are_not_compared():
    billed = {"cost": 9.0, "device_hours": 40 / 3600, "wall_time_s": 30.0}
    facts = make_facts({"framework": "a", "currency": "EUR"} | billed, {"framework": "b", "currency": "USD"} | billed)
    assert facts["decisions"][0]["recommended"]["cost"] is None


def test_completed_runs_without_a_rate_are_no_missing_runs():
    """A run has no rate if it is shorter than its warm-up. It may have reached a threshold."""
    rows = [{"framework": name, "images_per_s": None} for name in "ab"]
    (decision,) = make_facts(*rows)["decisions"]
    assert decision["recommended"]["duration_s"]["median"] == 2 and decision["recommended"]["images_per_s"] is None
    (decision,) = make_facts(*rows, thresholds=(0.99,))["decisions"]
    assert decision["refusal"] == "2 runs completed without a rate: no step came after the warm-up"


def test_runs_on_random_images_are_no_answer_and_are_not_denied():
    real, random = {"framework": "a", "status": "diverged"}, {"framework": "a", "input": "synthetic", "quality": None}
    facts = make_facts(real, random)
    assert facts["decisions"][0]["refusal"] == "no run that counts has completed"
    assert facts["statuses"] == {"diverged": 1, "completed": 1}


@pytest.mark.parametrize("label", ["3", "7; 9", "1e5"])
def test_a_label_whose_name_is_a_number_stays_a_name(tmp_path, label):
    write_table(tmp_path / "t.tsv", pd.DataFrame([{"metric": "macro_auc", "left_out": label}]))
    assert read_table(tmp_path / "t.tsv")["left_out"].tolist() == [label]


def test_the_gates_numbers_of_nodes_are_numbers(tmp_path):
    """In other tables, `nodes` has the names of hosts."""
    write_table(tmp_path / "parity.tsv", pd.DataFrame([{"devices": 2, "nodes": 2}]))
    assert (read_table(tmp_path / "parity.tsv")["nodes"] == 2).all()


@pytest.mark.parametrize("host", ["123456789012", "41e706332210"])
def test_a_host_whose_name_looks_like_a_number_is_named(tmp_path, host):
    """Containers have hexadecimal names."""
    run = {"device": "cpu", "num_gpus": 1, "device_model": "c", "nodes": host, "started_at": "2026-01-01"}
    write_table(tmp_path / "t.tsv", pd.DataFrame([run, run | {"num_gpus": 2}]))
    (devices,) = list_devices(read_table(tmp_path / "t.tsv"))
    assert devices == {"device": "cpu", "counts": [1, 2], "models": ["c"], "nodes": [host]}
