"""Test the frameworks on devices of two nodes: the gate, runs, and what the placement costs."""

from collections import Counter

import pytest

from helpers.messages import says
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.report.files import read_table
from project import ONLY_SGD, RUNS, study
from slurm.project import ClusterProject

PLACED = [f"results/{name}" for name in ("tables/placed/placement.tsv", "figures/placed/placement.svg")]
PLACED += [f"results/tables/placed/{name}" for name in ("answer.md", "allreduce.tsv")]
OVER_NODES = [name for name, entry in FRAMEWORKS.items() if entry.spans_nodes("local")]


@pytest.mark.usefixtures("compile_soon")
def test_frameworks_average_their_gradients_over_two_nodes(cluster, prepared, tmp_path, environment_record):
    """The gate does its task on two devices of two nodes. The runs then use two devices of each node.

    A second study has two devices on one node and on two.
    """
    per_node = 2
    project = ClusterProject(tmp_path / "project", cluster)
    project.write_machine(slurm={"preflight": True}, devices_per_node=per_node, cores_per_device=1)
    project.replace("workflow/lib/howmanygpus/measure/allreduce.py", SIZES_MIB=(1, 2))
    project.take_prepared(prepared)
    for environment in {FRAMEWORKS[name].environments["cpu"] for name in OVER_NODES}:
        project.take_environment(environment_record(environment))
    options = {"devices": ["fake"], "per_device_batch_size": [16], "parity": "required"}
    placed = {"frameworks": ["pytorch_ddp"], "num_gpus": [per_node], "num_nodes": [1, 2], "steps": 12}
    real = study(frameworks=OVER_NODES, num_gpus=[2 * per_node], steps=4, **options)
    project.write_config(real=real, placed=study(**placed, **options))
    project.edit("workflow/lib/howmanygpus/gate/task.py", ONLY_SGD)
    project.snakemake("--jobs", "2", *RUNS, "write_parity_page")
    project.snakemake(*PLACED)
    checks = read_table(project.folder / "results" / "tables" / "parity.tsv")
    over_nodes = checks[(checks["devices"] == 2) & (checks["nodes"] == 2)]
    assert set(over_nodes["framework"]) == set(OVER_NODES) and over_nodes["passed"].all()
    assert {"averaging", "gradients", "updates_sgd"} <= set(over_nodes["check"])
    runs = {path: record for path, record in project.read_records().items() if path.startswith("real/")}
    ended = {path: (record["status"], record["reason"]) for path, record in runs.items()}
    assert set(ended.values()) == {("completed", "")} and len(runs) == len(OVER_NODES), ended
    for record in runs.values():
        each = 1 if FRAMEWORKS[record["spec"]["framework"]].launcher == "per_node" else per_node
        assert Counter(Counter(process["hostname"] for process in record["processes"]).values()) == {each: 2}
    check_placed(project)


def check_placed(project):
    """Check that two devices of one node and of two were requested, measured and used, and that they are compared."""
    for suffix, nodes in {"": 1, "_nodes2": 2}.items():
        record = project.read_records()[f"placed/pytorch_ddp/base/arrays_fp32_fake_gpus2{suffix}_batch16_repeat1"]
        assert (record["status"], record["spec"]["num_nodes"], record["spec"]["num_gpus"]) == ("completed", nodes, 2)
        assert record["job"]["requested"] == f"gres:gpu:fake:{2 // nodes}"
        allocated = dict(part.split("=") for part in record["job"]["allocated"].split(","))
        assert (allocated["node"], allocated["cpu"]) == (str(nodes), "2")
        hosts = [(process["rank"], process["hostname"]) for process in record["processes"]]
        assert [rank for rank, _ in hosts] == [0, 1] and len({host for _, host in hosts}) == nodes
    table, figure, answer, allreduce = (project.folder / path for path in PLACED)
    one, two = read_table(table).sort_values("num_nodes").to_dict("records")
    assert (one["num_nodes"], two["num_nodes"], two["base_num_nodes"]) == (1, 2, 1)
    assert one["parity"] == two["parity"] == "passed", "the gate has a verdict for each"
    ratio = two["images_per_s_median"] / one["images_per_s_median"]
    assert two["rate_of_base"] == pytest.approx(ratio, rel=1e-4)
    assert says(answer.read_text(), "pytorch_ddp on 2 x fake on 2 nodes", f"{ratio:.2f} of the rate on 1 node")
    assert f"pytorch_ddp {ratio:.2f}" in figure.read_text()
    measured = read_table(allreduce)
    layouts = zip(measured["num_gpus"], measured["num_nodes"], measured["nodes"].str.split().str.len(), strict=True)
    assert set(layouts) == {(2, 1, 1), (2, 2, 2)}
