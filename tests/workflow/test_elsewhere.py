"""A call from another folder, and one by another workflow, says where the workflow runs."""

import subprocess
import sys

import pytest

from project import Project, study


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    project = Project(tmp_path_factory.mktemp("elsewhere") / "project", fakes=["sleeping"])
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    return project


def call(project, folder, *arguments):
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--dry-run", *arguments]
    environment = project.environment()
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("how", ["snakefile", "directory"])
def test_a_call_for_another_folder_names_both_folders_and_the_way_out(project, tmp_path, how):
    profile = ("--profile", f"{project.folder}/profiles/local")
    if how == "snakefile":
        made = call(project, tmp_path, "--snakefile", f"{project.folder}/Snakefile", *profile)
    else:
        made = call(project, project.folder, "--directory", str(tmp_path), *profile)
    assert made.returncode and f"cd {project.folder}" in made.stderr and f"called in {tmp_path}" in made.stderr
    assert "make .venv" not in made.stderr


def test_importing_the_workflow_as_a_module_is_refused_with_the_remedy(project, tmp_path):
    (tmp_path / "Snakefile").write_text(
        f'module gpus:\n    snakefile: "{project.folder}/Snakefile"\n    config: config\n'
        "use rule * from gpus as gpus_*\n"
    )
    made = call(project, tmp_path)
    assert made.returncode and "module" in made.stderr and f"cd {project.folder}" in made.stderr
    assert "No module named" not in made.stderr


def test_a_call_that_names_the_folder_of_the_workflow_works(project, tmp_path):
    names = ("--snakefile", f"{project.folder}/Snakefile", "--directory", str(project.folder))
    made = call(project, tmp_path, *names, "--profile", f"{project.folder}/profiles/local")
    assert made.returncode == 0, made.stderr[-2000:]
