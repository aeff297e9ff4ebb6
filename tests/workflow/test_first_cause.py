"""The last lines of a failed call name what failed first, and no gate is done for runs that cannot begin."""

import pytest
import yaml

from pictures import write_tree
from project import ROWS, study

COUNTS = {"train/normal": 33, "train/sick": 33, "test/normal": 3, "test/sick": 3}
GIVEN = {"frameworks": ["sleeping"], "num_gpus": [1], "parity": "required"}


def find_last_lines(printed: str) -> str:
    """Return what a user sees at the end: the last message of the workflow, and Snakemake's lines after it."""
    return printed[printed.rindex("Some steps failed") :]


@pytest.fixture
def damaged(project, prepared):
    """Return a project with a damaged image in one data set."""
    project.take_prepared(prepared)
    write_tree(project.folder / "xrays", COUNTS)
    (image, *_) = sorted((project.folder / "xrays" / "train" / "normal").iterdir())
    image.write_bytes(image.read_bytes()[:60])
    return project, str(image.relative_to(project.folder / "xrays"))


def write_config(project, **studies):
    options = {"folder": "xrays", "size": [8, 8], "channels": 1, "shard_images": 24}
    config = {"studies": studies, "datasets": {"xrays": {"source": "image_folder", "options": options}}}
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))


def test_a_damaged_image_is_named_last_with_the_remedy_and_before_the_gate(damaged):
    project, image = damaged
    write_config(project, mine=study(dataset="xrays", **GIVEN))
    printed = project.snakemake(*ROWS, expect=1)
    last = find_last_lines(printed)
    assert image in last and "on_bad_file" in last and "results/logs/merge_shards/xrays.log" in last
    assert not list((project.folder / "results" / "jobs").rglob("gate/*")), "the gate had no devices"
    assert not list((project.folder / "results" / "parity").rglob("*.json")), "the reference was not computed"


def test_the_gate_is_done_for_runs_that_can_begin(damaged, environment_python):
    environment_python("pytorch-cpu")  # for the reference of the gate
    project, image = damaged
    write_config(project, mine=study(dataset="xrays", **GIVEN), other=study(**GIVEN))
    printed = project.snakemake(*ROWS, expect=1)
    assert image in find_last_lines(printed)
    assert list((project.folder / "results" / "jobs").rglob("gate/*")) and project.read_records().keys() == {
        "other/sleeping/base/arrays_fp32_cpu_gpus1_batch64_repeat1"
    }


def test_a_failed_run_is_named_last_with_its_reason(project, prepared):
    project.take_prepared(prepared)
    project.write_config(small=study(frameworks=["sleeping"]))
    project.behave(sleeping__base__gpus2="crash")
    last = find_last_lines(project.snakemake(*ROWS, expect=1))
    assert "small/sleeping/base/arrays_fp32_cpu_gpus2_batch64_repeat1: crashed: RuntimeError: the fake" in last
    assert "results/attempts/small/sleeping/" in last
