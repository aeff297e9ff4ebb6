"""`per_device_batch_size: max`: one call searches the largest batch that fits, and then runs the grid with it."""

import json

import pytest

from howmanygpus.invocation.dry_run.summary import NOTHING
from project import Project, study

ANSWERS = ("--until", "merge_answers")
TOO_LARGE = {f"batch_search__sleeping__base__gpus1_batch{size}_": "out_of_memory" for size in (48, 56, 64)}
"""Behaviour of a fake whose largest batch has 40 images. The other fake takes any batch."""
CRASH = {"batch_search__sleeping__base__gpus1_batch64_": "crash"}
BOUND = 1432
"""The largest multiple of 8 images of which the data set has a batch."""


@pytest.fixture
def project(project, prepared):
    project.take_prepared(prepared)
    project.leave_figures_blank()
    return project


def list_sizes(project: Project) -> set[tuple[str, str, str]]:
    return {(row["framework"], row["per_device_batch_size"], row["status"]) for row in project.read_rows()}


def read_searches(project: Project) -> dict[str, dict]:
    paths = (project.folder / "results" / "batch_sizes").glob("*[0-9].json")
    return {path.name.split("_small_cnn")[0]: json.loads(path.read_text()) for path in paths}


def test_one_call_searches_the_largest_batch_and_runs_the_grid(project):
    project.write_config(small=study(num_gpus=[1], per_device_batch_size=[32, "max"]))
    project.behave(**TOO_LARGE)
    summary = project.snakemake("--dry-run")
    assert "largest batches" in summary and "4 x when the largest batches that fit are known" in summary, summary
    printed = project.snakemake(*ANSWERS)
    assert printed.count("Building DAG of jobs") == 2, "the second pass has the numbers"
    assert list_sizes(project) == {
        *(("sleeping", "32", "completed"), ("sleeping", "40", "completed")),
        *(("dozing", "32", "completed"), ("dozing", str(BOUND), "completed")),
    }
    found = read_searches(project)
    assert [each["batch"] for each in found["sleeping"]["tries"]] == [32, 64, 48, 40, 40]
    assert found["sleeping"]["limit"] == "memory" and "7 GiB" in found["sleeping"]["reason"]
    assert (found["dozing"]["largest"], found["dozing"]["limit"]) == (BOUND, "data_set")
    answer = project.read("results/tables/answer.md")
    assert "sleeping on cpu: 40 images (memory)" in answer, answer
    assert f"dozing on cpu: {BOUND} images (bounded by the data set)" in answer
    rows = project.read("results/tables/small/batch_search.tsv").splitlines()
    assert len(rows) == 1 + sum(len(each["tries"]) for each in found.values())
    assert not list((project.folder / "results" / "batch_sizes" / "tries").glob("*/")), "only failed tries are kept"

    assert NOTHING in project.snakemake(*ANSWERS), "the second call has nothing to do"


def test_a_search_that_fails_leaves_the_rest_and_is_repeated_by_the_next_call(project):
    project.write_config(small=study(num_gpus=[1], per_device_batch_size=[16, "max"]))
    project.behave(**CRASH)
    project.snakemake(*ANSWERS, expect=1)
    assert list_sizes(project) == {
        *(("sleeping", "16", "completed"), ("sleeping", "32", "unsupported")),
        *(("dozing", "16", "completed"), ("dozing", str(BOUND), "completed")),
    }
    reason = "64 images at a time: RuntimeError: the fake backend was told to crash"
    row = next(row for row in project.read_rows() if row["status"] == "unsupported")
    assert row["reason"] == f"per_device_batch_size: max has no number (failed): {reason}"
    assert f"sleeping on cpu: none (failed: {reason})" in project.read("results/tables/answer.md")
    tries = [row.split("\t") for row in project.read("results/tables/small/batch_search.tsv").splitlines()]
    sizes, outcomes = tries[0].index("batch"), tries[0].index("outcome")
    assert [(row[sizes], row[outcomes]) for row in tries if row[2] == "sleeping"] == [
        *(("32", "fits"), ("64", "failed"), ("64", "failed")),
    ]
    kept = project.folder / "results" / "batch_sizes" / "tries"
    assert [path.name.rpartition("_")[2] for path in kept.glob("*/")] == ["batch64"], "its attempt can be looked at"

    project.behave(**TOO_LARGE)
    project.snakemake(*ANSWERS)
    assert ("sleeping", "40", "completed") in list_sizes(project)
    found = read_searches(project)["sleeping"]
    assert [each["batch"] for each in found["tries"]] == [32, 64, 48, 40, 40], "what was known was not tried again"
    assert not list(kept.glob("*/")) and not list(kept.parent.glob("*.failed.json"))
