"""Another workflow uses this one as a module: with other names, in a folder of its own, and with its own config."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hanging import HANG_S
from project import Project, study

SNAKEFILE = """
configfile: "config.yaml"

module howmanygpus:
    snakefile: "{snakefile}"
    config: config["howmanygpus"]
    prefix: "scaling"

use rule * from howmanygpus as howmanygpus_*

rule draw:
    default_target: True
    input:
        "scaling/results/tables/scaling.tsv",
    output:
        "rates.svg",
    run:
        import pandas
        from matplotlib.figure import Figure
        table, figure = pandas.read_csv(input[0], sep="\\t"), Figure()
        figure.subplots().plot(table["num_gpus"], table["images_per_s_median"])
        figure.savefig(output[0])
"""


def call(folder, *arguments, expect=0):
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *map(str, arguments)]
    environment = Project.environment(None)
    made = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_S)
    printed = made.stdout + made.stderr
    assert made.returncode == expect, printed[-4000:]
    return printed


DEPLOYED = """
configfile: "config/config.yaml"

module clone:
    snakefile:
        "workflow/Snakefile"
    config:
        config

use rule * from clone
"""
"""The Snakefile that snakedeploy 0.17.1 writes for a local repository, with a path that needs the clone's before it."""


@pytest.fixture(scope="module")
def code(tmp_path_factory) -> Project:
    code = Project(tmp_path_factory.mktemp("code") / "clone", fakes=["sleeping"])
    code.leave_figures_blank()
    code.write_config(small=study(frameworks=["sleeping"], num_gpus=[1, 2]))
    return code


@pytest.fixture(scope="module")
def importing(code, tmp_path_factory) -> Path:
    """Return the folder of a workflow that has drawn a figure from the table of its module."""
    folder = tmp_path_factory.mktemp("importing")
    (folder / "Snakefile").write_text(SNAKEFILE.format(snakefile=code.folder / "workflow" / "Snakefile"))
    small = study(frameworks=["sleeping"], num_gpus=[1, 2])
    (folder / "config.yaml").write_text(yaml.safe_dump({"howmanygpus": {"studies": {"small": small}}}))
    call(folder)
    return folder


def test_a_figure_is_drawn_from_the_modules_table(importing):
    assert "<svg" in (importing / "rates.svg").read_text()
    assert len(list((importing / "scaling/results/runs").rglob("run.json"))) == 2
    assert not (importing / "results").exists()


def test_the_report_is_that_of_the_importing_workflow(importing):
    call(importing, "--report", "report.html")
    assert "which batch size, and at what cost" not in (importing / "report.html").read_text()


def test_a_second_call_has_nothing_to_do(importing):
    assert "Nothing to be done" in call(importing, "--dry-run")


def test_the_rules_have_the_names_that_the_importing_workflow_gives(importing):
    printed = call(importing, "--dry-run", "--forcerun", "howmanygpus_train", "--printshellcmds")
    assert len(re.findall(r"^rule howmanygpus_train:", printed, re.MULTILINE)) == 2
    assert "workflow/scripts/train.py" in printed and "HOWMANYGPUS" not in printed


def test_records_and_tables_are_those_of_a_call_in_the_folder_of_the_prefix(importing):
    results = importing / "scaling" / "results"
    for path in (*results.rglob("run.json"), *results.rglob("*.tsv"), *results.rglob("plans/*.json")):
        assert "scaling/results" not in path.read_text(), path


def test_the_hooks_of_the_module_can_be_called(importing, tmp_path):
    text = (importing / "Snakefile").read_text()
    hooks = "".join(f"\n{name}:\n    howmanygpus.{name}()\n" for name in ("onstart", "onsuccess", "onerror"))
    (tmp_path / "Snakefile").write_text(text + hooks)
    (tmp_path / "config.yaml").write_text((importing / "config.yaml").read_text())
    call(tmp_path, "scaling/results/plans/small.json")
    assert not (tmp_path / "results").exists() and (tmp_path / "scaling/.snakemake/howmanygpus").is_dir()


def test_without_a_prefix_results_are_beside_those_of_the_other_workflow(importing, tmp_path):
    text = (
        (importing / "Snakefile")
        .read_text()
        .replace('    prefix: "scaling"\n', "")
        .replace("scaling/results", "results")
    )
    (tmp_path / "Snakefile").write_text(text)
    (tmp_path / "config.yaml").write_text((importing / "config.yaml").read_text())
    printed = call(tmp_path, "--dry-run")
    assert "howmanygpus_train" in printed and "scaling/results" not in printed


def test_the_snakefile_at_the_top_of_the_clone_is_the_same_module(importing, tmp_path):
    text = (importing / "Snakefile").read_text().replace("workflow/Snakefile", "Snakefile")
    (tmp_path / "Snakefile").write_text(text[: text.index("rule draw")])
    (tmp_path / "config.yaml").write_text((importing / "config.yaml").read_text())
    assert "rule howmanygpus_all:" in call(tmp_path, "--dry-run"), "it is the default target"


def test_a_replaced_prefix_is_refused_with_the_remedy(importing, tmp_path):
    text = (importing / "Snakefile").read_text()
    (tmp_path / "Snakefile").write_text(text.replace('prefix: "scaling"', 'replace_prefix: {"results/": "others/"}'))
    (tmp_path / "config.yaml").write_text((importing / "config.yaml").read_text())
    printed = call(tmp_path, "--dry-run", expect=1)
    assert "replace_prefix" in printed and "others/runs" in printed and "use `prefix`" in printed


def copy_by_hand(code: Project, folder: Path) -> None:
    """Write what snakedeploy writes."""
    for name in ("config", "profiles"):
        shutil.copytree(code.folder / name, folder / name)
    (folder / "workflow").mkdir()
    (folder / "workflow" / "Snakefile").write_text(DEPLOYED)


def deploy(code: Project, folder: Path) -> None:
    if not shutil.which("snakedeploy"):
        pytest.skip("snakedeploy is not installed: pip install snakedeploy")
    command = ["snakedeploy", "deploy-workflow", str(code.folder), str(folder), "--branch", "main"]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize("write", [copy_by_hand, deploy])
def test_a_deployed_workflow_plans_with_the_copied_config_and_profile(code, tmp_path, write):
    write(code, tmp_path)
    snakefile = tmp_path / "workflow" / "Snakefile"
    text = snakefile.read_text()
    assert '"workflow/Snakefile"' in text
    snakefile.write_text(text.replace('"workflow/Snakefile"', f'"{code.folder}/workflow/Snakefile"'))
    (tmp_path / "profiles" / "local" / "machine.yaml").write_text("devices: {cpu: {unheard_of: 1}}\n")
    assert "unheard_of" in call(tmp_path, "--profile", "profiles/local", "--dry-run", expect=1)
    (tmp_path / "profiles" / "local" / "machine.yaml").write_text("devices: {cpu: {cores_per_device: 1}}\n")
    printed = call(tmp_path, "--profile", "profiles/local", "--dry-run")
    assert len(re.findall(r"^rule train:|^localrule train:", printed, re.MULTILINE)) == 2 and "rule all:" in printed
