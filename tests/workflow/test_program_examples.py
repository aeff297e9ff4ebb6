"""The programs in examples/program/ run as a newcomer runs them."""

import csv
import json
import shutil
import subprocess

import pytest
import yaml

from project import ROOT, Project


@pytest.fixture(scope="module")
def project(tmp_path_factory, environment_record):
    """Return a project with the results of all examples, their answers and a figure."""
    project = Project(tmp_path_factory.mktemp("examples") / "project", fakes=())
    shutil.copytree(ROOT / "examples", project.folder / "examples")
    for name in ("pytorch-cpu", "jax-cpu"):
        project.take_environment(environment_record(name))
    figures = [f"results/figures/{study}/throughput_by_gpus.svg" for study in ("gpt", "gpt_jax")]
    made = ("results/tables/answer.txt", *figures)
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
    assert {study for study, _, _ in trained} == set(config["studies"]) and len(trained) == 16
    for where, row in rows.items():
        assert row["status"] == "completed" and float(row["images_per_s"]) > 0, where
        quality = float(row["quality_last"] or "nan")
        assert where not in trained or (quality < 1.8 if "gpt" in where[0] else quality > 0.5), where


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


@pytest.mark.parametrize(
    ("study", "strategies"), [("gpt", ("ddp", "zero1", "fsdp2")), ("gpt_jax", ("data", "sharded"))]
)
def test_strategies_of_a_language_model_are_one_comparison_in_tokens(rows, project, study, strategies):
    for num_gpus in (1, 2):
        own = [rows[study, f"size_small_strategy_{name}", num_gpus] for name in strategies]
        assert {(int(row["images_seen"]), row["unit"]) for row in own} == {(num_gpus * 80 * 1024, "tokens")}
        first, *others = (float(row["quality_last"]) for row in own)
        assert others == pytest.approx([first] * len(others), abs=0.001), "the same training"
        assert all(float(row["trajectory"]) < float(row["trajectory_limit"]) for row in own)
    (decision,) = json.loads(project.read(f"results/tables/{study}/answer.json"))["decisions"]
    if decision["recommended"]:
        named = [decision["recommended"], *decision["alternatives"]]
        assert {one["variant"].rpartition("_")[2] for one in named} == set(strategies)
        assert all(one["memory_gib"] > 0 and one["loss"]["median"] > 0 and one["quality"] for one in named)
    else:
        # Other work on the machine may have disturbed all runs.
        assert "disturbed" in decision["refusal"]
    answer = project.read(f"results/tables/{study}/answer.txt")
    assert not any(word in answer for word in ("image", "sample"))
    figure = project.read(f"results/figures/{study}/throughput_by_gpus.svg")
    assert "tokens/s over all devices" in figure and "images" not in figure


COUNTS = {
    "pytorch-cpu": "import gpt_torch as g; print(sum(each.numel() for each in g.GPT(*g.SIZES['full']).parameters()))",
    "jax-cpu": "import gpt_jax as g, jax; layers, width, _, length = g.SIZES['full']; "
    "made = g.make_parameters(jax.random.key(0), layers, width, length); "
    "print(sum(each.size for each in jax.tree.leaves(made)))",
}
"""Programs that print the number of parameters of the GPT for GPUs."""


@pytest.mark.parametrize("environment", COUNTS)
def test_the_language_model_for_gpus_has_ten_million_parameters(environment, environment_python):
    command = [environment_python(environment), "-c", COUNTS[environment]]
    done = subprocess.run(command, cwd=ROOT / "examples" / "program", capture_output=True, text=True)
    assert int(done.stdout) == pytest.approx(10.8e6, rel=0.01), done.stderr
