"""Test image files and the frameworks' own loaders in the workflow: prepared data, training runs and reruns."""

import json

import pytest

from project import Project, study

OWN_LOADER = """
import dataclasses

FRAMEWORKS["dozing"] = dataclasses.replace(FRAMEWORKS["dozing"], native_loader="fake.loader")
"""
VARIANTS = {"shared": {}, "native": {"loader": "native", "loader_workers": 2}}
CELLS = [f"{form}_fp32_cpu_gpus1_batch64_repeat1" for form in ("jpeg", "png")]
NATIVE_RUNS = [f"files/dozing/native/{cell}" for cell in CELLS]
RUNS = [*NATIVE_RUNS, *(f"files/{name}/shared/{cell}" for name in ("dozing", "sleeping") for cell in CELLS)]
RECORDS = [f"results/runs/{run}/run.json" for run in RUNS]


def give_dozing_a_loader(project: Project) -> None:
    family = project.folder / "workflow" / "lib" / "howmanygpus" / "measure" / "frameworks" / "fake"
    project.edit("workflow/lib/howmanygpus/registry.py", OWN_LOADER)
    project.edit(
        "workflow/lib/howmanygpus/study/loaders.py", '\nNATIVE_LOADERS["fake.loader"] = NativeLoader(("threads",))\n'
    )
    text = (
        "from howmanygpus.measure.input.batches import TrainingBatches\n\n\nclass LOADER(TrainingBatches):\n    pass\n"
    )
    (family / "loader.py").write_text(text)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Project:
    """Return a project that has run both forms of files, with the shared loader and a fake framework's own loader."""
    project = Project(tmp_path_factory.mktemp("loading") / "project")
    give_dozing_a_loader(project)
    project.write_config(files=study(inputs=["png", "jpeg"], num_gpus=[1], variants=VARIANTS))
    project.snakemake(*RECORDS)
    return project


def test_files_are_made_from_the_arrays_and_trained_on(finished):
    for form, suffix in (("png", "png"), ("jpeg", "jpg")):
        folder = finished.folder / "results" / "prepared" / "digits" / form
        assert len(list((folder / "images" / "train").rglob(f"*.{suffix}"))) == 1437
        assert len(list((folder / "images" / "test").rglob(f"*.{suffix}"))) == 360
    runs = finished.read_records()
    assert sorted(runs) == sorted(RUNS)
    assert {run["status"] for run in runs.values()} == {"completed"}
    assert len({run["manifest_sha256"] for run in runs.values()}) == 2


def test_a_native_loader_is_named_only_in_the_record_of_its_run(finished):
    for path, run in finished.read_records().items():
        ran = "howmanygpus/measure/frameworks/fake/loader.py" in run["code"]
        assert ran == ("/native/" in path), path
        assert (run["spec"]["loader"], run["spec"]["loader_workers"]) == (("fake.loader", 2) if ran else ("shared", 1))


def test_a_second_call_does_nothing_and_an_edited_loader_reruns_its_runs(finished):
    assert finished.planned(*RECORDS) == []
    loader = finished.folder / "workflow" / "lib" / "howmanygpus" / "measure" / "frameworks" / "fake" / "loader.py"
    code = loader.read_text()
    loader.write_text(code + "\nNEW = 1\n")
    try:
        assert finished.planned_runs(*RECORDS) == NATIVE_RUNS
    finally:
        loader.write_text(code)


def test_a_missing_container_image_is_reported_before_the_run_starts(finished):
    path = finished.folder / "results" / "prepared" / "digits" / "png" / "images" / "test" / "0000" / "0000007.png"
    content = path.read_bytes()
    record = f"results/runs/files/dozing/shared/{CELLS[1]}/run.json"
    path.unlink()
    try:
        finished.snakemake("--forcerun", record, "--", record, expect=1)
    finally:
        path.write_bytes(content)
    finished.snakemake(*RECORDS)
    logs = list((finished.folder / "results" / "attempts").rglob("attempt.json"))
    assert len(logs) == 1 and "0000007.png is missing; delete" in json.loads(logs[0].read_text())["reason"]
