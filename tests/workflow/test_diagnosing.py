"""A study with `diagnose: true` in two real frameworks: control runs, times of processes, all-reduce of gradients."""

import json

import pytest

from howmanygpus.report.files import read_table
from project import Project, study

CONTROLS = {"resident_input", "no_exchange", "no_evaluation"}


@pytest.fixture(scope="module")
def project(tmp_path_factory, environment_record):
    project = Project(tmp_path_factory.mktemp("diagnosed") / "project", fakes=())
    for name in ("pytorch-cpu", "tensorflow-cpu"):
        project.take_environment(environment_record(name))
    given = study(frameworks=["pytorch_ddp", "keras_mirrored"], devices=["cpu"], diagnose=True, steps=None, epochs=2)
    project.write_config(seen=given | {"window_steps": 2})
    project.snakemake("results/tables/seen/answer.txt", "results/figures/seen/allreduce.svg")
    return project


@pytest.fixture(scope="module")
def runs(project):
    return read_table(project.folder / "results" / "tables" / "seen" / "runs.tsv")


def read_run(project, row) -> dict:
    return json.loads(project.read(f"{row['run_dir']}/run.json"))


def test_every_control_completes_in_both_frameworks(project, runs):
    assert set(runs["status"]) == {"completed"}, runs[["framework", "variant", "status", "reason"]].to_string()
    for _, own in runs.groupby("framework"):
        controls = own[own["control"].notna()]
        counts = controls.groupby("control")["num_gpus"].apply(list).to_dict()
        assert counts == {"resident_input": [1, 2], "no_exchange": [2], "no_evaluation": [1, 2]}
    assert runs["images_per_s"].notna().all()


def test_controls_leave_out_what_they_say(project, runs):
    for _, row in runs.iterrows():
        record, control = read_run(project, row), row["control"]
        if control == "resident_input":
            assert record["spec"]["input"] == "resident" and record["data_wait_s"] == 0
        if control in CONTROLS:
            assert record["eval_s"] == 0
        else:
            assert record["eval_s"] > 0 and record["spec"]["exchange"] == "all"
        if control == "no_exchange":
            assert record["settings"]["exchange"].startswith("none")


def test_each_process_has_its_own_seconds(project, runs):
    for _, row in runs.iterrows():
        record = read_run(project, row)
        measured = {process["rank"]: process["measured_s"] for process in record["processes"]}
        assert sorted(measured) == list(range(record["num_processes"]))
        assert 0 < max(measured.values()) <= record["measured_s"] + 1e-6


def test_no_comparison_contains_a_control(project):
    tables = project.folder / "results" / "tables" / "seen"
    for name in ("scaling", "time_to_accuracy", "losses", "batch_sizes"):
        assert set(read_table(tables / f"{name}.tsv")["variant"]) <= {"base"}
    answer = (tables / "answer.md").read_text()
    assert "4 runs planned: 4 completed." in answer and "are not ranked: 10 completed." in answer
    assert "control_" not in answer


def test_the_all_reduce_has_the_bytes_of_the_gradients(project):
    table = read_table(project.folder / "results" / "tables" / "seen" / "allreduce.tsv")
    assert table[["device", "num_gpus", "gradients_of"]].values.tolist() == [["cpu", 2, "small_cnn"]]
    (weights,) = (project.folder / "results" / "weights").glob("small_cnn_*.safetensors")
    num_bytes = round(table["size_mib"].iloc[0] * 2**20)
    # The file has a header beside the arrays, and small_cnn has no running statistics.
    assert 0 < weights.stat().st_size - num_bytes < 4096
    assert table["median_s"].iloc[0] > 0
    jobs = read_table(project.folder / "results" / "tables" / "seen" / "jobs.tsv")
    assert jobs["kind"].tolist().count("allreduce") == 1, "its device-hours are part of the bill"


def test_nothing_is_done_again_and_the_dry_run_counts_controls(project):
    target = "results/tables/seen/answer.txt"
    assert project.planned(target) == []
    project.write_config(seen=study(frameworks=["pytorch_ddp"], devices=["cpu"], diagnose=True, steps=30))
    said = project.snakemake("--dry-run", target)
    assert "Control runs (diagnose): 5 of the 7 runs" in said
