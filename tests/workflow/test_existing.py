"""An interpreter that the cluster provides by environment modules can replace a built environment."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from helpers.messages import says
from project import ODD_FOLDER, RUNS, study

LMOD = Path("/etc/profile.d/lmod.sh")
MODULEFILE = """
setenv("FROM_A_MODULE", "yes")
"""


@pytest.fixture
def modular(project, tmp_path, monkeypatch):
    """Return a project whose fake environment is this Python, loaded by a module."""
    if not LMOD.exists():
        pytest.skip("no environment modules: apt-get install --no-install-recommends lmod")
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "framework.lua").write_text(MODULEFILE)
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules"))
    monkeypatch.setenv("HOWMANYGPUS_CACHE", str(tmp_path / ODD_FOLDER / "cache"))
    shutil.rmtree(project.folder / "results" / "environments")
    return project


def use(project, **interpreter):
    machine = {"environments": {"fake-cpu": interpreter}}
    (project.folder / "profiles" / "local" / "machine.yaml").write_text(yaml.safe_dump(machine))


def test_runs_start_behind_the_modules(modular, tmp_path):
    python = tmp_path / ODD_FOLDER / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    use(modular, python=str(python), modules=["framework"])
    modular.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    backend = modular.folder / "workflow/lib/howmanygpus/measure/frameworks/fake/sleeping.py"
    backend.write_text(backend.read_text() + '\nassert os.environ["FROM_A_MODULE"] == "yes"\n')
    modular.snakemake(*RUNS)
    record = json.loads(next((modular.folder / "results" / "environments").glob("*.json")).read_text())
    assert record["existing"]["modules"] == ["framework"] and any("numpy" in package for package in record["packages"])
    assert json.loads(next((modular.folder / "results").rglob("run.json")).read_text())["status"] == "completed"


def test_an_interpreter_without_its_packages_or_modules_is_refused(modular):
    use(modular, python="/usr/bin/env false", modules=["framework"])
    modular.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    output = modular.snakemake(expect=1)
    assert "/usr/bin/env false with modules ['framework'] cannot `import numpy" in output
    use(modular, python=sys.executable, modules=["unheard"])
    output = modular.snakemake(expect=1)
    assert "module load unheard failed; correct environments.fake-cpu of the machine file" in output


def test_a_call_that_asks_snakemake_for_software_is_told_where_interpreters_are_named(project):
    project.write_config(small=study(frameworks=["sleeping"], num_gpus=[1]))
    told = project.snakemake("--dry-run", "--sdm", "conda", "apptainer")
    assert says(told, "--software-deployment-method: apptainer conda has no effect", "`environments`")
    assert "--software-deployment-method" not in project.snakemake("--dry-run")
