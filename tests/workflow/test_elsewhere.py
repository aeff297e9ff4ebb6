"""The workflow is called in any folder, and keeps its results there. Moving code or results reruns nothing."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from hanging import HANG_S
from howmanygpus.base.version import VERSION
from project import ODD_FOLDER, Project, study

SUMMARY = re.compile(r"^  (\w+(?: \w+)*) {2,}\d", re.MULTILINE)


def call(folder, *arguments, expect=0):
    """Run Snakemake in a folder, with the Python of the tests, and return what it prints."""
    command = [sys.executable, "-m", "snakemake", *map(str, arguments)]
    environment = Project.environment(None)
    made = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_S)
    printed = made.stdout + made.stderr
    assert made.returncode == expect, printed[-4000:]
    return printed


def list_stages(printed: str) -> list[str]:
    """Return the stages whose jobs a dry run would do."""
    assert "Nothing to be done" in printed or "This call would do" in printed
    return SUMMARY.findall(printed)


@pytest.fixture(scope="module")
def code(tmp_path_factory) -> Project:
    """Return a copy of the code, in a folder with an odd name."""
    code = Project(tmp_path_factory.mktemp("code") / ODD_FOLDER / "clone", fakes=["sleeping"])
    code.leave_figures_blank()
    # Calls from other folders have theirs there.
    shutil.rmtree(code.folder / ".snakemake")
    return code


def list_options(code: Project) -> list:
    return ["--snakefile", code.folder / "workflow" / "Snakefile", "--profile", code.folder / "profiles" / "local"]


@pytest.fixture(scope="module")
def results(code, tmp_path_factory) -> Path:
    """Return a folder with the config and the results of one study, made by a call in a third folder."""
    folder = tmp_path_factory.mktemp("elsewhere") / ODD_FOLDER
    folder.mkdir()
    small = study(frameworks=["sleeping"], num_gpus=[1])
    (folder / "mine.yaml").write_text(yaml.safe_dump({"studies": {"small": small}}))
    options = [*list_options(code), "--directory", folder, "--configfile", folder / "mine.yaml"]
    printed = call(folder.parent, *options)
    assert "The answer is in results/tables/answer.txt" in printed
    return folder


def test_results_are_in_the_folder_of_the_call_and_nothing_is_in_that_of_the_code(code, results):
    assert list(results.glob("results/runs/**/run.json")) and (results / "results/figures/small").is_dir()
    assert not (code.folder / ".snakemake").exists() and not (code.folder / "results" / "runs").exists()


def test_the_same_call_from_that_folder_has_nothing_to_do(code, results):
    for snakefile in ("Snakefile", "workflow/Snakefile"):
        options = ["--snakefile", code.folder / snakefile, "--profile", code.folder / "profiles" / "local"]
        assert list_stages(call(results, *options, "--configfile", "mine.yaml", "--dry-run")) == []


def test_a_report_is_written_there(code, results):
    call(results, *list_options(code), "--configfile", "mine.yaml", "--report", "report.zip")
    with zipfile.ZipFile(results / "report.zip") as packed:
        pages = [packed.read(name).decode(errors="replace") for name in packed.namelist()]
    assert any(f"made by howmanygpus {VERSION}" in page for page in pages)


def test_records_name_the_version_of_the_workflow(results):
    records = [json.loads(path.read_text()) for path in results.glob("results/runs/**/run.json")]
    assert [record["workflow_version"] for record in records] == [VERSION]


def test_moved_code_and_moved_results_rerun_nothing(code, results, tmp_path):
    elsewhere = code.copy_to(tmp_path / "code")
    moved = shutil.copytree(results, tmp_path / "results of last week", copy_function=shutil.copy2)
    shutil.rmtree(moved / ".snakemake" / "locks", ignore_errors=True)
    assert list_stages(call(moved, *list_options(elsewhere), "--configfile", "mine.yaml", "--dry-run")) == []


def test_results_that_another_clone_adopts_rerun_nothing(code, results, tmp_path):
    clone = code.copy_to(tmp_path / "clone")
    shutil.rmtree(clone.folder / "results", ignore_errors=True)
    command = ["make", "adopt", f"FROM={results}"]
    subprocess.run(command, cwd=clone.folder, check=True, capture_output=True)
    shutil.copy2(results / "mine.yaml", clone.folder)
    assert clone.planned("--configfile", "mine.yaml") == []


def test_two_calls_in_two_folders_at_once_build_one_environment(code, tmp_path):
    cache, folders = tmp_path / "cache", [tmp_path / "one", tmp_path / "other"]
    environment = Project.environment(None) | {"HOWMANYGPUS_CACHE": str(cache)}
    command = [sys.executable, "-m", "snakemake", *map(str, list_options(code)), "--until", "build_environment"]
    started = []
    for folder in folders:
        folder.mkdir()
        small = study(frameworks=["sleeping"], num_gpus=[1])
        (folder / "mine.yaml").write_text(yaml.safe_dump({"studies": {"small": small}}))
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen([*command, "--configfile", "mine.yaml"], cwd=folder, env=environment, **pipes))
    for process in started:
        printed, _ = process.communicate(timeout=HANG_S)
        assert process.returncode == 0, printed[-3000:]
    records = [json.loads(next(folder.glob("results/environments/fake-cpu-*.json")).read_text()) for folder in folders]
    assert records[0] == records[1] and Path(records[0]["python"]).is_relative_to(cache)
    assert len([path for path in (cache / "environments").glob("fake-cpu*") if path.is_dir()]) == 1


def test_a_folder_without_a_config_gets_that_of_the_workflow(code, tmp_path):
    printed = call(tmp_path, *list_options(code), "--dry-run")
    assert "digits" in printed and list_stages(printed)


def test_the_config_of_the_folder_goes_before_that_of_the_workflow(code, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text("studies: {small: {dataset: nothing}}\n")
    assert "studies.small" in call(tmp_path, *list_options(code), "--dry-run", expect=1)


def test_the_machine_file_beside_a_profile_is_found_from_the_folder_of_the_command(code, tmp_path):
    profile = shutil.copytree(code.folder / "profiles" / "local", tmp_path / "start" / "mine")
    (profile / "machine.yaml").write_text("devices: {cpu: {unheard_of: 1}}\n")
    options = ["--snakefile", code.folder / "Snakefile", "--profile", "mine", "--directory", tmp_path / "there"]
    printed = call(tmp_path / "start", *options, "--dry-run", expect=1)
    assert f"{tmp_path}/start/mine/machine.yaml" in printed and "unheard_of" in printed


def test_rules_without_the_library_beside_them_name_the_way_out(code, tmp_path):
    (tmp_path / "workflow").mkdir()
    shutil.copy2(code.folder / "workflow" / "Snakefile", tmp_path / "workflow")
    shutil.copytree(code.folder / "workflow" / "rules", tmp_path / "workflow" / "rules")
    printed = call(tmp_path, "--cores", "1", "--dry-run", expect=1)
    assert f"{tmp_path}/workflow/lib does not exist" in printed and "clone the repository" in printed
