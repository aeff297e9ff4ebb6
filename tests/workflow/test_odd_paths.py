"""A checkout works in a folder whose name has spaces, an umlaut and an apostrophe, with images in such a folder."""

import shutil
import subprocess

import pytest
import yaml

from forking import STARTED_BY_USERS
from pictures import write_tree
from project import ODD_FOLDER, Project, study


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """Return a project whose images are in an odd folder too, with all its tables and figures."""
    project = Project(tmp_path_factory.mktemp("odd") / ODD_FOLDER / "project", fakes=["sleeping"])
    images = project.folder.parent / "images"
    write_tree(images, {"train/cat": 6, "train/dog": 6, "test/cat": 3, "test/dog": 3})
    project.leave_figures_blank()
    options = {"source": "image_folder", "options": {"folder": str(images), "size": [8, 8], "channels": 1}}
    small = study(dataset="pets", frameworks=["sleeping"], inputs=["arrays", "png"], per_device_batch_size=[2])
    (project.folder / "config" / "config.yaml").write_text(
        yaml.safe_dump({"studies": {"small": small}, "datasets": {"pets": options}})
    )
    project.snakemake()
    return project


def test_a_study_runs_in_a_folder_with_an_odd_name(project):
    assert {row["status"] for row in project.read_rows()} == {"completed"}
    assert project.planned() == []


def test_its_report_is_written(project):
    project.snakemake("--report", "results/report.html")
    assert "pets" in project.read("results/report.html")


def test_its_results_are_adopted_by_a_clone(project, tmp_path):
    clone = Project(tmp_path / ODD_FOLDER / "clone", fakes=["sleeping"])
    shutil.rmtree(clone.folder / "results")
    shutil.copytree(project.folder / "config", clone.folder / "config", dirs_exist_ok=True)
    clone.leave_figures_blank()
    subprocess.run(["make", "adopt", f"FROM={project.folder}"], cwd=clone.folder, check=True, capture_output=True)
    assert clone.planned() == []


def test_names_are_utf8_in_every_locale(tmp_path):
    project = Project(tmp_path / "project", fakes=["sleeping"])
    write_tree(tmp_path / "Größe", {"train/Größe": 3, "train/鳥": 3, "test/Größe": 2, "test/鳥": 2})
    (tmp_path / "Größe" / "train" / "鳥" / "übrig.png").write_text("damaged, so that a log names it")
    given = {"folder": str(tmp_path / "Größe"), "channels": 1, "on_bad_file": "skip"}
    options = {"source": "image_folder", "options": given}
    small = study(dataset="sizes", frameworks=["sleeping"], num_gpus=[1], per_device_batch_size=[2])
    small["deviations"] = ["Größere Bilder"]
    config = {"studies": {"small": small}, "datasets": {"sizes": options}}
    (project.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config, allow_unicode=True), "utf-8")
    ascii_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    command = [*STARTED_BY_USERS, "prepared", "--profile", "profiles/local"]
    made = subprocess.run(
        command, cwd=project.folder, env=project.environment() | ascii_locale, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr[-3000:]
    classes = (project.folder / "results/prepared/sizes/arrays/classes.tsv").read_text("utf-8")
    assert "Größe\t3\t2" in classes and "鳥\t3\t2" in classes
