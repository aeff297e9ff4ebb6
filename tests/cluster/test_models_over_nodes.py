"""A user's model in one file and one in a folder train over two nodes, and the gate compares their gradients there."""

import shutil

import pytest

from howmanygpus.report.files import read_table
from project import ONLY_SGD, ROOT, RUNS, study
from slurm.project import ClusterProject


@pytest.mark.usefixtures("compile_soon")
def test_models_of_users_train_over_two_nodes(cluster, prepared, tmp_path, environment_record):
    project = ClusterProject(tmp_path / "project", cluster, devices_per_node=2, cores_per_device=1)
    project.take_prepared(prepared)
    project.take_environment(environment_record("pytorch-cpu"))
    shutil.copy2(ROOT / "examples" / "model" / "pytorch_net.py", project.folder / "net.py")
    shutil.copytree(ROOT / "examples" / "model_folder" / "silu_net", project.folder / "silu_net")
    options = {"num_gpus": [4], "per_device_batch_size": [16], "steps": 4, "parity": "required"}
    models = {"model": ["net.py", "./silu_net"], "frameworks": ["pytorch_ddp"]}
    project.write_config(own=study(**models, devices=["fake"], **options))
    project.edit("workflow/lib/howmanygpus/gate/task.py", ONLY_SGD)
    project.snakemake("--jobs", "2", *RUNS, "write_parity_page")
    checks = read_table(project.folder / "results" / "tables" / "parity.tsv")
    over_nodes = checks[(checks["devices"] == 2) & (checks["nodes"] == 2)]
    assert set(over_nodes["model"]) == {"net", "silu_net"} and over_nodes["passed"].all()
    for _, own in over_nodes.groupby("model"):
        assert {"averaging", "gradients", "updates_sgd", "replicas"} <= set(own["check"])
    runs = project.read_records()
    assert {record["spec"]["model"]: record["status"] for record in runs.values()} == dict.fromkeys(
        ("net", "silu_net"), "completed"
    )
    for record in runs.values():
        assert [process["hostname"] for process in record["processes"]] == ["node1", "node1", "node2", "node2"]
    check_that_a_wrong_model_fails_before_any_run(project)


def check_that_a_wrong_model_fails_before_any_run(project):
    file = project.folder / "net.py"
    file.write_text(file.read_text().replace("nn.Linear(width, num_classes)", "nn.Linear(width, 7)"))
    printed = project.snakemake("--jobs", "2", *RUNS, expect=1)
    assert "net.py: the model returned (2, 7) of float32 for 2 images; return float logits (2, 10)" in printed
    begun = project.read_last_log()
    assert "rule initialize_own_weights" in begun and "rule observe_parity" not in begun
