"""Runs on one device each at the same time, through the whole workflow, are set beside the run on all devices."""

import csv

import pytest

from project import ROWS, study

ANSWERS = ("--until", "merge_answers")
BOTH = {"together": {}, "alone": {"independent": True}}


@pytest.fixture
def project(project, prepared):
    project.take_prepared(prepared)
    project.leave_figures_blank()
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[2], variants=BOTH))
    return project


def read_rows(project, table="runs") -> dict[str, dict[str, str]]:
    text = project.read(f"results/tables/small/{table}.tsv")
    return {row["variant"]: row for row in csv.DictReader(text.splitlines(), delimiter="\t")}


def test_the_slowest_device_counts_and_the_answer_compares(project):
    project.behave(repeat1_device0={"step_s": 0.02}, repeat1_device1={"step_s": 0.2}, gpus2={"step_s": 0.05})
    project.snakemake(*ANSWERS)
    (record,) = [each for path, each in project.read_records().items() if "/alone/" in path]
    rates = [device["images_per_s"] for device in record["devices"]]
    assert rates[1] < rates[0] and rates[1] <= 64 / 0.2
    assert record["images_seen"] == 2 * 24 * 64 and record["spec"]["global_batch_size"] == 128
    rows = read_rows(project)
    alone = rows["alone"]
    assert alone["status"] == "completed" and alone["independent"] == "True" and not rows["together"]["independent"]
    assert float(alone["images_per_s"]) == pytest.approx(2 * rates[1], rel=1e-4)
    assert float(alone["device_images_per_s_min"]) == pytest.approx(rates[1], rel=1e-4)
    assert float(alone["device_images_per_s_max"]) == pytest.approx(rates[0], rel=1e-4)
    scaling = read_rows(project, "scaling")
    assert float(scaling["alone"]["images_per_s_median"]) == pytest.approx(2 * rates[1], rel=1e-4)
    answer = project.read("results/tables/small/answer.md")
    assert " sleeping together | 64 |" in answer and "sleeping alone" not in answer
    assert "2 independent runs of sleeping at once, on one device each, have" in answer


def test_the_end_of_one_device_is_that_of_the_run(project):
    project.behave(alone__gpus1_batch64_repeat1_device1="out_of_memory")
    project.snakemake(*ROWS)
    row = read_rows(project)["alone"]
    assert (row["status"], row["reason"]) == ("out_of_memory", "device 1: tried to allocate 7 GiB")
    project.behave(alone__gpus1_batch64_repeat1_device0="crash")
    project.snakemake("--forcerun", "train", *ROWS, expect=1)
    project.snakemake("available", *ROWS)
    assert "told to crash" in read_rows(project)["alone"]["reason"]
