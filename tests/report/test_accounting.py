"""What a run is billed: its own hours, those of its failed attempts, and the devices or nodes that it occupied."""

import json

import pandas as pd
import pytest

from helpers.records import JOB
from helpers.specs import make_spec
from helpers.stored_runs import QUALITY, collect, plan_of, store_run, write_attempt
from howmanygpus.report.tables.time_to_accuracy import compute_time_to_accuracy
from howmanygpus.report.thresholds import summarize_time_to_accuracy
from howmanygpus.site.machine import Device, Machine

NODE_OF_FOUR = {"devices_per_node": 4, "billed": "node", "price_per_hour": 8.0, "currency": "EUR"}


@pytest.mark.parametrize(
    ("changes", "billed", "cost"),
    [({}, 4.0, 8.0), ({"billed": "device"}, 2.0, 16.0), ({"price_per_hour": None}, 4.0, None)],
)
def test_a_job_is_billed_by_its_devices_or_by_their_nodes(tmp_path, changes, billed, cost):
    """The job has two of a node's four devices for one hour."""
    spec = make_spec(num_gpus=2)
    store_run(tmp_path, "run0", spec, job=JOB, finished_at="1970-01-01T01:16:40+00:00")
    row = collect(plan_of(spec, billing={"cpu": NODE_OF_FOUR | changes}), tmp_path)[0].iloc[0]
    assert (row["queue_wait_s"], row["device_hours"], row["billed_device_hours"]) == (90.0, 2.0, billed)
    assert row["cost"] == cost if cost else pd.isna(row["cost"])


def test_jobs_that_share_a_node_are_billed_their_shares_of_its_price(tmp_path):
    spec = make_spec(num_gpus=2)
    store_run(tmp_path, "run0", spec, job=JOB, finished_at="1970-01-01T01:16:40+00:00")
    row = collect(plan_of(spec, billing={"cpu": NODE_OF_FOUR | {"shared": True}}), tmp_path)[0].iloc[0]
    assert (row["billed_device_hours"], row["cost"]) == (2.0, 4.0)
    devices = {"a100": Device(4, options=NODE_OF_FOUR | {"nodes": "shared"})}
    assert Machine("m", devices, scheduler="slurm").billing("a100")["shared"] is True


def test_a_job_is_billed_for_all_devices_that_an_exclusive_node_gave_it(tmp_path):
    spec, job = make_spec(num_gpus=2), JOB | {"allocated": "cpu=8,mem=16G,node=1,gres/gpu=4,gres/gpu:a100=4"}
    store_run(tmp_path, "run0", spec, job=job, finished_at="1970-01-01T01:16:40+00:00")
    row = collect(plan_of(spec, billing={"cpu": NODE_OF_FOUR | {"billed": "device"}}), tmp_path)[0].iloc[0]
    assert (row["device_hours"], row["billed_device_hours"], row["cost"]) == (2.0, 4.0, 32.0)


@pytest.mark.parametrize(("exclusive", "billed"), [({}, 2.0), ({"exclusive": True}, 4.0)])
def test_an_exclusive_node_is_billed_as_a_whole_if_slurm_does_not_count_devices(tmp_path, exclusive, billed):
    """A cluster that does not account for GPUs names none in its allocations."""
    spec, job = make_spec(num_gpus=2), JOB | {"allocated": "cpu=8,mem=16G,node=1,billing=8"}
    store_run(tmp_path, "run0", spec, job=job, finished_at="1970-01-01T01:16:40+00:00")
    prices = NODE_OF_FOUR | {"billed": "device"} | exclusive
    row = collect(plan_of(spec, billing={"cpu": prices}), tmp_path)[0].iloc[0]
    assert (row["device_hours"], row["billed_device_hours"], row["cost"]) == (2.0, billed, 8.0 * billed)


def test_a_machine_without_jobs_is_billed_for_the_wall_time(tmp_path):
    """Its launcher waited for half an hour until another run of the machine had ended."""
    spec, times = make_spec(), {"started_at": "1970-01-01T01:00:00+00:00", "finished_at": "1970-01-01T02:00:00+00:00"}
    store_run(tmp_path, "run0", spec, wall_time_s=1800.0, **times)
    by_device = NODE_OF_FOUR | {"billed": "device"}
    row = collect(plan_of(spec, billing={"cpu": by_device}), tmp_path)[0].iloc[0]
    assert (row["billed_device_hours"], row["cost"], row["currency"]) == (0.5, 4.0, "EUR")


def test_failed_attempts_are_part_of_the_bill(tmp_path):
    """Two attempts failed after half an hour each, before one took an hour. Nobody knows when a third one ended."""
    spec, times = make_spec(), {"started_at": "1970-01-01T01:00:00+00:00", "finished_at": "1970-01-01T01:30:00+00:00"}
    write_attempt(tmp_path, "crashed", **times)
    write_attempt(tmp_path, "time_limit", started="20260102T000000", **times)
    lost = write_attempt(tmp_path, "killed", started="20260103T000000", settled=True)
    lost.write_text(
        json.dumps({key: value for key, value in json.loads(lost.read_text()).items() if key != "finished_at"})
    )
    plan = plan_of(spec, billing={"cpu": NODE_OF_FOUR | {"billed": "device"}})
    row = collect(plan, tmp_path)[0].iloc[0]
    assert (row["status"], row["billed_device_hours"], row["cost"]) == ("killed", 1.0, 8.0)
    store_run(tmp_path, "run0", spec, wall_time_s=3600.0)
    row = collect(plan, tmp_path)[0].iloc[0]
    assert (row["failed_attempts"], row["billed_device_hours"], row["cost"]) == (3, 2.0, 16.0)
    assert row["failed_billed_device_hours"] == 1.0


def test_the_price_to_a_target_ends_with_the_evaluation_that_reached_it(tmp_path):
    """An attempt fails after half an hour; a run of an hour reaches 0.5 after 18 s and 0.9 after 27 s of 3600 s."""
    spec = make_spec(num_gpus=2)
    write_attempt(tmp_path, "crashed", started_at="1970-01-01T01:00:00+00:00", finished_at="1970-01-01T01:30:00+00:00")
    times = {"started_at": "1970-01-01T01:00:00+00:00", "finished_at": "1970-01-01T02:00:00+00:00"}
    store_run(tmp_path, "run0", spec, accuracies=(0.4, 0.6, 0.9), **times, wall_time_s=3600.0)
    plan = plan_of(spec, billing={"cpu": NODE_OF_FOUR})
    runs, evaluations = collect(plan, tmp_path)
    assert runs["cost"].iloc[0] == 12.0, "a node of 8 EUR an hour, for an hour and a half"
    table = compute_time_to_accuracy(runs, evaluations, QUALITY | {"thresholds": [0.5, 0.9, 0.95]})
    expected = [8.0 * (0.5 + 18 / 3600), 8.0 * (0.5 + 27 / 3600)]
    assert table["cost_to_accuracy"][:2].tolist() == pytest.approx(expected)
    assert table["currency"][:2].tolist() == ["EUR", "EUR"] and pd.isna(table["cost_to_accuracy"][2])
    summary = summarize_time_to_accuracy(table, "cost_to_accuracy")
    assert summary["time_s_median"].tolist() == pytest.approx([*expected, float("inf")])


def test_without_a_price_there_is_none_to_a_target(tmp_path):
    store_run(tmp_path, "run0", make_spec(), accuracies=(0.95,))
    table = compute_time_to_accuracy(*collect(plan_of(make_spec()), tmp_path), QUALITY)
    assert table["reached"].all() and table[["cost_to_accuracy", "currency"]].isna().all(axis=None)


@pytest.mark.parametrize(("nodes", "told"), [("exclusive", True), ("shared", None)])
def test_the_machine_file_says_whether_nodes_are_exclusive(nodes, told):
    options = {**{"devices_per_node": 4, "billed": "device", "price_per_hour": 1.5, "currency": "EUR"}, "nodes": nodes}
    machine = Machine("machine.yaml", {"a100": Device(4, 8, "cuda", options=options)}, "slurm")
    assert machine.billing("a100").get("exclusive") is told
    alone = Machine("machine.yaml", {"a100": Device(4, 8, "cuda", options=options)})
    assert "exclusive" not in alone.billing("a100"), "without a scheduler, no node is given to a run"
