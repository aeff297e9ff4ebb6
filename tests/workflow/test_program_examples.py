"""The programs in examples/program/ run as a newcomer runs them."""

import csv
import json
import shutil

import pytest
import yaml

from project import ROOT, Project


@pytest.fixture(scope="module")
def project(tmp_path_factory, environment_record):
    """Return a project with the results of all examples, their answers and a figure."""
    project = Project(tmp_path_factory.mktemp("examples") / "project", fakes=())
    shutil.copytree(ROOT / "examples", project.folder / "examples")
    project.take_environment(environment_record("pytorch-cpu"))
    made = ("results/tables/answer.txt", "results/figures/language_model/throughput_by_gpus.svg")
    project.snakemake(*made, "--configfile", "examples/program/config.yaml")
    return project


@pytest.fixture(scope="module")
def rows(project):
    """Return the rows of the table of runs by study, variant and number of devices, also of control runs."""
    found = {(row["study"], row["variant"], int(row["num_gpus"])): row for row in project.read_rows()}
    for row in found.values():
        row["record"] = json.loads(project.read(f"{row['run_dir']}/run.json"))
    return found


def test_every_example_completes_and_learns(rows):
    config = yaml.safe_load((ROOT / "examples/program/config.yaml").read_text())
    trained = {where: row for where, row in rows.items() if not row["control"]}
    assert {study for study, _, _ in trained} == set(config["studies"]) and len(trained) == 10
    for where, row in rows.items():
        assert row["status"] == "completed" and float(row["images_per_s"]) > 0, where
        assert where not in trained or float(row["quality_last"]) > 0.5, where


def test_the_pytorch_script_honours_control_runs(rows, project):
    controls = {where: row for where, row in rows.items() if row["control"]}
    assert {(variant, count) for _, variant, count in controls} == {
        *(("control_resident_input", count) for count in (1, 2)),
        ("control_no_exchange", 2),
    }
    alone = rows["own_pytorch", "control_no_exchange", 2]["record"]
    assert [process["rank"] for process in alone["processes"] if process.get("measured_s")] == [0, 1]
    assert alone["reported"]["parameters"] == 8 * 10 + (36 * 8 + 1) * 10
    ceilings = csv.DictReader(project.read("results/tables/own_pytorch/ceilings.tsv").splitlines(), delimiter="\t")
    known = {row["variant"]: row["allreduce_s"] for row in ceilings if row["num_gpus"] == "2"}
    assert float(known["model_small"]) > 0 and not known["model_large"], "which has other parameters"


def test_the_pytorch_script_trains_on_every_device(rows):
    one, two = (rows["own_pytorch", "model_large", num_gpus] for num_gpus in (1, 2))
    assert two["record"]["num_processes"] == 2 and two["framework_version"].startswith("torch ")
    assert int(two["images_seen"]) == 2 * int(one["images_seen"]) == 2 * 60 * 64
    assert float(one["init_s"]) > 0 and float(one["eval_s"]) > 0


def test_the_shell_script_is_read_by_regular_expressions(rows):
    row = rows["own_script", "base", 2]
    assert (int(row["images_seen"]), row["quality_last"], row["init_s"]) == (40 * 64, "0.8", "")


def test_a_language_model_that_torchrun_starts_is_measured_in_tokens(rows, project):
    for strategy in ("strategy_ddp", "strategy_fsdp"):
        one, two = (rows["language_model", strategy, num_gpus] for num_gpus in (1, 2))
        assert (int(one["images_seen"]), int(two["images_seen"])) == (80 * 1024, 2 * 80 * 1024)
        assert {one["unit"], two["unit"]} == {"tokens"}
    for num_gpus in (1, 2):
        ddp, fsdp = (rows["language_model", f"strategy_{name}", num_gpus] for name in ("ddp", "fsdp"))
        assert float(ddp["quality_last"]) == pytest.approx(float(fsdp["quality_last"]), abs=0.03), "the same training"
    answer = project.read("results/tables/language_model/answer.txt")
    # Other work on the machine may have disturbed all runs, so that none is recommended.
    assert json.loads(project.read("results/tables/language_model/answer.json"))["unit"] == "tokens"
    assert "strategy_ddp" in answer and "strategy_fsdp" in answer
    assert not any(word in answer for word in ("image", "sample"))
    figure = project.read("results/figures/language_model/throughput_by_gpus.svg")
    assert "tokens/s over all devices" in figure and "images" not in figure
