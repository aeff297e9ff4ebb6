"""The repository has the layout that the Snakemake Workflow Catalog expects, and one version."""

import shlex
import tomllib
from pathlib import Path

import yaml

from howmanygpus.base.version import VERSION
from howmanygpus.clone import name_script
from project import ROOT


def test_the_catalog_finds_the_workflow_its_configuration_and_its_usage():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage["software-stack-deployment"]["report"] is True and usage["mandatory-flags"]["desc"]
    for name in usage["mandatory-flags"]["flags"].removeprefix("--profile ").split():
        assert (ROOT / name / "config.yaml").exists()
    assert {"workflow/Snakefile", "config/README.md", "config/config.yaml"} <= {
        str(path.relative_to(ROOT)) for folder in ("workflow", "config") for path in (ROOT / folder).iterdir()
    }
    assert "snakemake" in (ROOT / "README.md").read_text().lower()


def test_the_contents_page_includes_every_file_of_rules():
    lines = (ROOT / "workflow" / "Snakefile").read_text().splitlines()
    included = {line.split('"')[1] for line in lines if line.startswith("include:")}
    assert included == {f"rules/{path.name}" for path in (ROOT / "workflow" / "rules").glob("*.smk")}


def test_all_files_name_the_same_version():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == VERSION


def test_a_script_is_named_as_the_user_of_the_folder_starts_it(tmp_path, monkeypatch):
    """Also where the results are in a folder without the workflow's code."""
    monkeypatch.chdir(ROOT)
    assert name_script("retry_runs") == ".venv/bin/python workflow/scripts/retry_runs.py"
    monkeypatch.chdir(tmp_path)
    program, script = shlex.split(name_script("retry_runs"))
    assert Path(program).exists() and Path(script) == ROOT / "workflow" / "scripts" / "retry_runs.py"
