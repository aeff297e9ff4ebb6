"""The published studies and their samples are planned without error, and only what frameworks lack is unsupported."""

import pytest
import yaml
from snakemake.utils import update_config

from howmanygpus.config.errors import ConfigError
from howmanygpus.prepare.listing import read_task_once
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.plan import Plan
from howmanygpus.study.published import choose_rows, describe_sources, list_files, list_names, list_published, read_rows
from pictures import SHARED_DATA
from project import ROOT

FOLDER = ROOT / "config" / "published"
STUDIES = ("chexnet", "dogs", "birds", "input_pipeline", "keras_feeding")
GPU = Device(4, 8, "cuda", max_nodes=4, compute_capability="8.0")
MACHINES = {
    "cluster": Machine("machine.yaml", {"a100": GPU}, "slurm"),
    "cpu": Machine("machine.yaml", {"cpu": Device(2, 1)}),
}
KNOWN = {
    "chexnet": set(),
    "dogs": {("keras_mirrored", 8), ("keras_mirrored", 12), ("tensorflow_mirrored", 8), ("tensorflow_mirrored", 12)},
    "birds": set(),
    "keras_feeding": set(),
}
"""Framework and device count of the unsupported cells on nodes of four GPUs."""


@pytest.fixture(autouse=True)
def forget():
    read_task_once.cache_clear()
    yield
    read_task_once.cache_clear()


def read(name: str) -> dict:
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text())


def write_xrays(folder) -> None:
    """The NIH's table with enough patients; the planner opens no image."""
    (folder / "images").mkdir(parents=True)
    rows = [f"{index:08d}_000.png,{('Edema|Mass', 'No Finding')[index % 2]},{index}" for index in range(1, 40001)]
    (folder / "Data_Entry_2017_v2020.csv").write_text("\n".join(["Image Index,Finding Labels,Patient ID", *rows]))


def write_images(folder, counts: dict[str, int], num_classes: int) -> None:
    """Folders of empty files. counts: the images of each class by split."""
    for split, count in counts.items():
        for number in range(num_classes):
            place = folder / split / f"{number:03d}"
            place.mkdir(parents=True)
            for index in range(count):
                (place / f"{index}.jpg").touch()


def write_birds(folder) -> None:
    write_images(folder, {"train": 4, "valid": 5}, num_classes=285)


def plan(name: str, tmp_path, machine: str) -> Plan:
    """Plan a study with folders that look like its data."""
    config = read(name)
    folders = {"data/chestxray14": write_xrays, "data/birds": write_birds}
    for dataset in config.get("datasets", {}).values():
        if folder := dataset.get("options", {}).get("folder"):
            if not (tmp_path / folder).exists():
                folders[folder](tmp_path / folder)
            dataset["options"]["folder"] = str(tmp_path / folder)
    if machine == "cluster":
        for study in config["studies"].values():
            study["devices"] = ["a100"]
    return Plan(config, MACHINES[machine])


@pytest.mark.parametrize("name", [*STUDIES, "all"])
def test_each_study_is_planned_on_a_cluster(tmp_path, name):
    planned = plan(name, tmp_path, "cluster")
    assert planned.find_shortages() == []
    unsupported = {run for run in planned.runs.values() if run.unsupported}
    own = {
        run for run in unsupported if "own loader" not in run.unsupported and "leave loading out" not in run.unsupported
    }
    assert {(run.framework, run.num_gpus) for run in own} == KNOWN.get(name, set()), {run.unsupported for run in own}
    assert {run.framework for run in planned.runs.values()} == {
        run.framework for run in planned.runs.values() if not run.unsupported
    }


@pytest.mark.parametrize("name", STUDIES)
def test_each_sample_needs_no_data_and_runs_on_two_cores(tmp_path, name):
    planned, full = plan(f"{name}_sample", tmp_path, "cpu"), read(name)["studies"]
    assert {study.name for study in planned.studies.values()} == {f"{study}_sample" for study in full}
    for study in planned.studies.values():
        own = full[study.name.removesuffix("_sample")]
        assert study.dataset_options["source"] in ("patterns", "synthetic")
        assert study.config["published"] == own.get("published") and study.config["model"] == own["model"]
        assert set(study.config["frameworks"]) <= set(own["frameworks"]) and study.config["deviations"]
        assert study.config["repeats"] == 1 and study.config["time_limit_min"] <= 5
        assert any(not run.unsupported for run in study.runs), "on CPUs, some run of each study can be done"
    reached = {run.framework for run in planned.runs.values() if not run.unsupported}
    assert reached >= {"pytorch_ddp", "keras_mirrored"} or name == "input_pipeline"


def find_frameworks(config: dict) -> set[str]:
    return {framework for study in config["studies"].values() for framework in study["frameworks"]}


def kinds(config: dict) -> set[frozenset]:
    """What the variants of all studies change: keys with values, or keys alone if the values are numbers above 1."""
    variants = [variant for study in config["studies"].values() for variant in study.get("variants", {}).values()]
    return {
        frozenset((key, "more" if type(value) is int and value > 1 else value) for key, value in variant.items())
        for variant in variants
    }


@pytest.mark.parametrize("name", STUDIES)
def test_each_sample_has_the_frameworks_variants_and_inputs_of_its_study(name):
    full, sample = read(name), read(f"{name}_sample")
    assert kinds(sample) == kinds(full) and find_frameworks(sample) == find_frameworks(full)
    for study, own in full["studies"].items():
        assert sample["studies"][f"{study}_sample"].get("inputs") == own.get("inputs")


def test_each_published_result_stands_beside_some_study_and_some_sample():
    """A result beside which no study stands is in no figure."""
    rows = [tuple(row.values()) for table in list_published() for row in read_rows(table)]
    for end in ("", "_sample"):
        studies = [study for name in STUDIES for study in read(f"{name}{end}")["studies"].values()]
        chosen = {tuple(row.values()) for study in studies for row in choose_rows(study)}
        assert [row for row in rows if row not in chosen] == []


@pytest.mark.parametrize("name", STUDIES)
def test_each_published_study_names_its_source_and_its_deviations(name):
    for study in read(name)["studies"].values():
        assert list_names(study["published"])[0] == name and len(study["deviations"]) >= 2
        assert bool(list_files(study["published"])) == (name != "input_pipeline")
        assert describe_sources(study)[0]["protocol"], "the report names the source"
        assert all(text.endswith(".") and len(text.split()) > 3 for text in study["deviations"])


def test_a_missing_folder_is_named_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, dataset in (("chexnet", "chexnet"), ("birds", "birds")):
        with pytest.raises(
            ConfigError, match=rf"datasets\.{dataset}\.options\.folder: .*data/.* is not a folder here; "
        ):
            Plan(read(name), MACHINES["cpu"])


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"no real images in {SHARED_DATA}")
@pytest.mark.parametrize("name", [path.stem for path in sorted((FOLDER / "real").glob("*.yaml"))])
def test_a_sample_is_planned_on_real_images(tmp_path, monkeypatch, name):
    """Snakemake merges the second file into the sample's. The folders are as docs/studies.md says."""
    checkout = tmp_path / "checkout"
    (checkout / "data" / "xray_sample").mkdir(parents=True)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "data").symlink_to(SHARED_DATA)
    (checkout / "data" / "xray_sample" / "images").symlink_to(SHARED_DATA / "xray" / "images")
    table = "Data_Entry_2017_sample.csv"
    (checkout / "data" / "xray_sample" / table).symlink_to(SHARED_DATA / "xray" / table)
    write_images(checkout / "data" / "cifar10", {"train": 64, "test": 16}, num_classes=10)
    monkeypatch.chdir(checkout)
    config = read(f"{name}_sample")
    update_config(config, read(f"real/{name}"))
    planned = Plan(config, MACHINES["cpu"])
    assert {study.dataset_options["source"] for study in planned.studies.values()} <= {"chestxray14", "image_folder"}
    assert any(not run.unsupported for run in planned.runs.values())


def test_the_machine_file_with_a_price_is_the_usual_one_otherwise():
    usual, priced = (
        yaml.safe_load((ROOT / f"profiles/local/{name}.yaml").read_text()) for name in ("machine", "priced")
    )
    cpu = priced["devices"]["cpu"]
    assert cpu.pop("price_per_hour") > 0 and cpu.pop("currency")
    assert cpu == usual["devices"]["cpu"]
    assert "machine=profiles/local/priced.yaml" in (ROOT / "docs/studies.md").read_text()


def test_the_course_on_horovod_has_its_gradient_noise_measured():
    for name in ("input_pipeline", "input_pipeline_sample"):
        noisy = read(name)["studies"][name.replace("input_pipeline", "input_pipeline_noise")]
        assert noisy["gradient_noise_every_epochs"] and len(noisy["per_device_batch_size"]) > 1
        assert {FRAMEWORKS[framework].family for framework in noisy["frameworks"]} == {"torch", "keras", "gluon"}
