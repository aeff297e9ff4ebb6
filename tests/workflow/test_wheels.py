"""An environment can be built without a package index, from wheels that were fetched on a machine with one."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from howmanygpus.site.environments.build import use_fetched
from howmanygpus.site.environments.horovod import download_source, make_builder
from howmanygpus.site.environments.horovod_edits import apply_edits
from howmanygpus.site.environments.pins import HOROVOD_SOURCE, HOROVOD_TOOLS, list_pin_files
from project import ODD_FOLDER, ROOT

NAME = "chainer-cpu"
"""The most difficult environment: Chainer is published only as source, and its build has pins of its own."""
NOWHERE = "http://127.0.0.1:9/"
SOON = {"PIP_NO_COMPILE": "1"}
"""This saves time for environments in which almost nothing is run."""
OFFLINE = {"PIP_INDEX_URL": NOWHERE, "PIP_CONFIG_FILE": os.devnull}


def run_script(name, cache, pins, *options, **variables):
    command = [sys.executable, f"workflow/scripts/{name}.py", "--name", NAME, "--pins", *pins]
    environment = os.environ | {"PYTHONPATH": "workflow/lib", "HOWMANYGPUS_CACHE": str(cache), **SOON, **variables}
    result = subprocess.run([*command, *map(str, options)], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]


def test_wheels_are_all_that_a_build_without_a_network_needs(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    wheels, record, cache = tmp_path / "wheels.json", tmp_path / "environment.json", tmp_path / ODD_FOLDER
    pins = list_pin_files(NAME)
    run_script("fetch_wheels", cache, pins, "--record", wheels)
    run_script("build_environment", cache, pins, "--wheels", wheels, "--record", record, **OFFLINE)
    python = json.loads(record.read_text())["python"]
    subprocess.run([python, "-c", "import chainer, mpi4py, safetensors, psutil"], check=True)


def test_horovods_source_and_tools_are_fetched_too(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    wheels, tools, source = tmp_path / "wheels.json", Path(HOROVOD_TOOLS), Path(HOROVOD_SOURCE)
    options = ["--tools", tools, "--source", source, "--record", wheels]
    pins = tmp_path / "pins.txt"
    pins.write_text("packaging\n")
    run_script("fetch_wheels", tmp_path, [pins], *options)
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, "")
    for name, value in (OFFLINE | SOON).items():
        monkeypatch.setenv(name, value)
    use_fetched(wheels)
    builder = make_builder(tmp_path / "builder", sys.executable, [tools])
    subprocess.run([builder / "python", "-c", "import cffi"], check=True)  # Its setup.py would fetch cffi.
    archive = download_source(builder, source, tmp_path)
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    apply_edits(tmp_path / archive.name.removesuffix(".tar.gz"))
