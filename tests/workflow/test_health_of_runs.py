"""A run's record has the state of its host, and the rates of the machine's devices, which are measured once."""

import json

import pytest

from howmanygpus.report.files import read_table
from project import TABLES, Project, study


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with a cache of its own in which two runs were done, and then one more with the kernel switched off."""
    folder = tmp_path_factory.mktemp("health")
    project = Project(folder / "project", fakes=["sleeping"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOWMANYGPUS_CACHE", str(folder / "cache"))
        project.write_config(s=study(frameworks=["sleeping"], num_gpus=[1, 2], steps=4))
        project.snakemake(*TABLES)
        project.edit("profiles/local/machine.yaml", "reference_kernel: false\n")
        repeats = study(frameworks=["sleeping"], num_gpus=[1, 2], steps=4, repeats=2)
        project.write_config(s=repeats)
        project.snakemake(*TABLES)
    return project


def read_runs(project, repeat):
    paths = sorted(project.folder.glob(f"results/runs/s/**/*_repeat{repeat}/run.json"))
    return [json.loads(path.read_text()) for path in paths]


def test_each_record_has_the_state_before_the_run(project):
    for record in (*read_runs(project, 1), *read_runs(project, 2)):
        state = record["health"]
        assert state["host"]["hostname"] == record["host"]["hostname"] and state["gpus"] == []
        assert state["host"]["memory_total_gib"] >= state["host"]["memory_limit_gib"] > 0
        assert state["host"]["other_cpu_frac"] >= 0 and set(state["missing"]) <= {"host"}


def test_the_devices_of_the_machine_are_measured_once_for_all_runs(project):
    first, second = (record["reference_kernel"] for record in read_runs(project, 1))
    assert first == second and "problem" not in first
    (node,) = first["nodes"]
    assert len(node["devices"]) >= 2 and all(device["product_tflop_per_s"] > 0 for device in node["devices"])
    cores = [
        " ".join(map(str, each["cores"])) for record in read_runs(project, 1) for each in record["topology"]["cores"]
    ]
    assert {f"cores {own}" for own in cores} <= {device["device"] for device in node["devices"]}


def test_the_kernel_can_be_switched_off_and_reruns_nothing(project):
    assert len(read_runs(project, 2)) == 2
    assert not any("reference_kernel" in record for record in read_runs(project, 2))
    assert all("reference_kernel" in record for record in read_runs(project, 1)), "they were not done again"


def test_the_table_over_all_studies_has_the_devices(project):
    table = read_table(project.folder / "results/tables/health.tsv")
    devices = table[table["about"] == "device"]
    assert devices["product_tflop_per_s"].notna().all() and len(devices) == devices["device"].nunique() >= 2
    assert "health" in read_table(project.folder / "results/tables/runs.tsv")
