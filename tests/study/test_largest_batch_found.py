"""A study waits for the searches of its largest batch, and its tables and its answer say what they found."""

import json
import os
import subprocess
import sys

import matplotlib.pyplot as plt
import pandas as pd

from helpers.searches import CPU, found, make_plan
from howmanygpus.files import write_json_atomic
from howmanygpus.invocation.deciding import (
    WAITS,
    compute_pass_state,
    decide_all,
    describe_decision,
    end_pass,
    list_numbers,
    record_failed_searches,
)
from howmanygpus.report.answer.batches import list_largest
from howmanygpus.report.figures import load_figure
from howmanygpus.report.files import read_table
from howmanygpus.report.outcomes import identify
from howmanygpus.report.tables import batch_search, ceilings, scaling
from howmanygpus.report.tables.batch_sizes import mark_largest
from howmanygpus.report.tables.runs import COLUMNS as RUNS
from howmanygpus.site.retrying import STARTED
from howmanygpus.study.largest.search import read_found
from howmanygpus.study.plan import Plan
from project import ROOT, study


def test_a_plan_that_waits_asks_for_no_run_of_its_study():
    plan = make_plan(found(480), per_device_batch_size=[32, "max"])
    plan.decisions = decide_all(plan)
    assert plan.is_undecided("small") and not any(map(plan.is_asked_for, plan.runs.values()))
    assert set(plan.decisions["small"].later.values()) == {WAITS}
    told = describe_decision(plan, "small", plan.decisions["small"])
    assert {status for status, _ in told["runs"].values()} == {"missing"}
    assert not decide_all(make_plan(found(480), found(480), per_device_batch_size=[32, "max"]))


def test_an_adaptive_study_waits_with_its_probes():
    rules = {"per_device_batch_size": "max", "num_gpus": "auto", "train_best": 1, "probe_steps": 12}
    waiting = decide_all(make_plan(found(96), **rules))
    assert set(waiting) == {"small", "small_probe"} and not any(each.go for each in waiting.values())
    decided = decide_all(make_plan(found(96), found(96), **rules))
    assert decided["small_probe"].go and all("batch88" in run for run in decided["small_probe"].go)


def test_a_search_that_failed_is_known_to_this_call_alone(tmp_path, monkeypatch):
    record = str(tmp_path / "torch_upto8.json")
    monkeypatch.setenv(STARTED, "20260101T000000")
    assert read_found(record) is None
    write_json_atomic(tmp_path / "torch_upto8.failed.json", found(0, "failed") | {"call": "20260101T000000"})
    assert read_found(record) == found(0, "failed")
    monkeypatch.setenv(STARTED, "20260102T000000")
    assert read_found(record) is None
    write_json_atomic(tmp_path / "torch_upto8.json", found(64) | {"tries": []})
    assert read_found(record) == found(64)


def test_a_search_without_a_record_is_given_up_by_this_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(STARTED, "20260101T000000")
    given = study(frameworks=["pytorch_ddp"], devices=["cpu"], num_gpus=[1], per_device_batch_size=[16, "max"])
    plan, said = Plan({"studies": {"small": given}}, CPU), []
    plan.decisions = decide_all(plan)
    end_pass(plan, said.append, is_last=False)
    assert not said, "nothing was found"
    end_pass(plan, said.append, is_last=False, has_failed=True)
    assert len(said) == 1
    now = plan.plan_again()
    assert [run.per_device_batch_size for run in now.runs.values() if not run.unsupported] == [16]
    assert (
        "its job left no record; see results/logs/search_batch_size/pytorch_ddp_"
        in list(now.runs.values())[1].unsupported
    )
    record_failed_searches(now)
    assert compute_pass_state(decide_all(now), list_numbers(now)) == compute_pass_state({}, ())


def test_another_number_of_a_repeated_search_is_followed_by_a_pass():
    before, after = (make_plan(found(size), found(64), per_device_batch_size="max") for size in (480, 472))
    standings = [compute_pass_state(decide_all(plan), list_numbers(plan)) for plan in (before, after)]
    assert standings[0].is_followed_by(standings[1]) and not standings[0].is_followed_by(standings[0])


TRY = {"num_steps": 8, "status": "completed", "reason": "", "seconds": 3.5, "is_confirmation": False}
TRY |= {"peak_memory_bytes": 2**31, "memory_limit_bytes": None, "device_model": "A100"}


def tabulate(plan: Plan) -> pd.DataFrame:
    described = plan.studies["small"].describe()
    tries = [TRY | {"batch": 32, "outcome": "fits"}, TRY | {"batch": 64, "outcome": "out_of_memory", "reason": "full"}]
    records = {each["search"]: {"bound": 1432, "tries": tries} for each in described["largest"] if each["largest"]}
    return batch_search.tabulate(described, records)


def test_the_table_has_every_try_and_each_search_without_any():
    plan = make_plan(found(48), found(0, "failed", "it crashed"), per_device_batch_size="max", num_gpus=[1, 2])
    table = tabulate(plan)
    torch, jax = (table[table["framework"] == name] for name in ("pytorch_ddp", "jax_sharding"))
    assert torch[["try", "batch", "outcome"]].values.tolist() == [[1, 32, "fits"], [2, 64, "out_of_memory"]]
    assert set(torch["largest"]) == {48} and set(torch["per_device_batch_size"]) == {40}
    assert torch["peak_memory_gib"].tolist() == [2.0, 2.0]
    assert jax[["limit", "limit_reason"]].values.tolist() == [["failed", "it crashed"]]
    assert jax[["largest", "batch", "per_device_batch_size"]].isna().all(axis=None)


def test_the_script_reads_records_and_the_files_of_searches_that_failed(tmp_path):
    plan = (
        make_plan(found(48), found(0, "failed", "it crashed"), per_device_batch_size="max").studies["small"].describe()
    )
    write_json_atomic(tmp_path / "plan.json", plan)
    torch, jax = (
        next(each["search"] for each in plan["largest"] if name in each["search"]) for name in ("torch", "jax")
    )
    tried = TRY | {"outcome": "failed"}
    write_json_atomic(tmp_path / f"{torch}.json", {"bound": 1432, "tries": [tried | {"batch": 32}]})
    write_json_atomic(tmp_path / f"{torch}.failed.json", {"bound": 1432, "tries": [tried | {"batch": 16}]})
    write_json_atomic(tmp_path / f"{jax}.failed.json", {"bound": 1432, "tries": [tried | {"batch": 64}]})
    searches = [str(tmp_path / f"{torch}.json"), *map(str, tmp_path.glob("*.failed.json"))]
    request = {"input": {"plan": str(tmp_path / "plan.json"), "searches": searches}}
    request["output"] = {"tables": [str(tmp_path / "batch_search.tsv")]}
    command = [sys.executable, ROOT / "workflow" / "scripts" / "make_tables.py", json.dumps(request)]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")})
    table = read_table(tmp_path / "batch_search.tsv")
    assert table[["framework", "batch"]].values.tolist() == [["pytorch_ddp", 32], ["jax_sharding", 64]]


def test_the_answer_names_the_largest_batch_and_its_limit():
    plan = make_plan(found(48), found(0, "failed", "it crashed"), per_device_batch_size="max", num_gpus=[1, 2])
    torch, jax = list_largest(tabulate(plan))
    assert (torch["series"], torch["device"], torch["largest"], torch["taken"]) == ("pytorch_ddp", "cpu", 48, 40)
    assert (jax["largest"], jax["limit"], jax["limit_reason"]) == (None, "failed", "it crashed")
    plan = make_plan(found(1432, "data_set"), found(64, "host_memory"), per_device_batch_size="max")
    limits = [(each["largest"], each["limit"]) for each in list_largest(tabulate(plan))]
    assert limits == [(1432, "data_set"), (64, "host_memory")]


def test_the_batch_of_each_framework_is_marked_with_its_limit():
    plan = make_plan(found(480), found(64, "data_set"), per_device_batch_size=[64, "max"])
    rows = [
        {"framework": name, "variant": "base", "precision": "fp32", "device": "cpu", "per_device_batch_size": size}
        for name in ("pytorch_ddp", "jax_sharding")
        for size in (64, 480)
    ]
    table = pd.DataFrame(rows).assign(is_largest_that_fits=False)
    marked = mark_largest(table, plan.studies["small"].largest.describe())
    assert marked["max_limit"].tolist() == [None, "memory", "data_set", None]
    assert marked["is_largest_that_fits"].tolist() == [False, True, False, False]


def make_scaling(plan: Plan) -> pd.DataFrame:
    rows = []
    for run in plan.runs.values():
        spec = plan.studies["small"].spec(run)
        identity = identify(plan.studies["small"].describe(), spec)
        rows.append(
            identity
            | {"status": "completed", "images_per_s": 100.0 * run.num_gpus, "disturbed": False, "protocol": None}
        )
    return scaling.tabulate(plan.studies["small"].describe(), pd.DataFrame(rows, columns=list(RUNS)))


def test_figures_show_the_largest_batch_of_each_framework_together():
    plan = make_plan(found(480), found(64), per_device_batch_size=[32, 64, "max"], num_gpus=[1, 2])
    table = make_scaling(plan)
    curves = {(row["framework"], row["fixed_batch_size"]): row["curve"] for _, row in table.iterrows()}
    shared = "weak scaling, largest batch of each framework"
    assert curves["pytorch_ddp", 448] == curves["jax_sharding", 56] == shared
    assert curves["pytorch_ddp", 64] == curves["jax_sharding", 64] == "weak scaling, 64 images per device"
    nothing = {"runs": pd.DataFrame(columns=list(RUNS)), "ceilings": pd.DataFrame(columns=ceilings.COLUMNS)}
    figure = load_figure("throughput_by_gpus").draw(scaling=table, **nothing)
    plt.close(figure)
    assert [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes] == [
        *("weak scaling, 32 images per device", shared, "weak scaling, 64 images per device"),
    ]
    notes = [axes.get_xlabel() for axes in figure.axes]
    assert notes[1].endswith("images: jax_sharding 56, pytorch_ddp 448")
    assert not any("images:" in note for note in (notes[0], notes[2]))
    strong = {"per_device_batch_size": "max", "scaling": "strong", "num_gpus": [2, 4], "accumulate": 2}
    table = make_scaling(make_plan(found(40), found(64), **strong))
    assert set(table["curve"]) == {"strong scaling, largest batch of each framework"}
    assert set(table["fixed_batch_size"]) == {2 * 2 * 32, 2 * 2 * 56}
