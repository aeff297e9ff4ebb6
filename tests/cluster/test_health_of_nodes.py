"""Each node of a run has its state in the record, and its devices are measured before its first run of the day."""

from project import RUNS, study


def test_every_node_of_a_run_is_looked_at_and_measured_once(project, tmp_path, monkeypatch):
    monkeypatch.setenv("HOWMANYGPUS_CACHE", str(tmp_path / "cache"))
    project.write_machine(reference_kernel=True)
    project.write_config(s=study(frameworks=["pacing"], devices=["fake"], num_gpus=[8], repeats=2, steps=4))
    project.snakemake("--jobs", "1", *RUNS)
    first, second = project.read_records().values()
    nodes = sorted({process["hostname"] for process in first["processes"]})
    assert len(nodes) == 2, "8 devices are on two nodes"
    for record in (first, second):
        states = [process["health"]["host"] for process in record["processes"] if "health" in process]
        assert sorted(state["hostname"] for state in states) == sorted({p["hostname"] for p in record["processes"]})
        assert "health" not in record, "the first process of each node has it"
    for record in (first, second):
        kernel = record["reference_kernel"]
        assert "problem" not in kernel
        assert [node["hostname"] for node in kernel["nodes"]] == sorted({p["hostname"] for p in record["processes"]})
        assert all(device["product_tflop_per_s"] > 0 for node in kernel["nodes"] for device in node["devices"])
    shared = {node["hostname"]: node for node in first["reference_kernel"]["nodes"]}
    for node in second["reference_kernel"]["nodes"]:
        assert node == shared.get(node["hostname"], node), "it was not measured again"
