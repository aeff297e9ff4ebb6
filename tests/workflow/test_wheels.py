"""An environment can be built where no package index is reached, from wheels that were fetched where one is."""

import json
import os
import subprocess
import sys

from benchplan.code import environment_pins
from project import ROOT

NAME = "chainer-cpu"
"""The hardest: published as source only, and built with pins of its own."""
NOWHERE = "http://127.0.0.1:9/"


def run_script(name, cache, *options, **variables):
    command = [sys.executable, f"workflow/scripts/{name}.py", "--name", NAME, "--pins", *environment_pins(NAME)]
    environment = os.environ | {"PYTHONPATH": "workflow/lib", "HOWMANYGPUS_CACHE": str(cache), **variables}
    result = subprocess.run([*command, *map(str, options)], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]


def test_wheels_are_all_that_a_build_without_a_network_needs(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    wheels, record = tmp_path / "wheels.json", tmp_path / "environment.json"
    run_script("fetch_wheels", tmp_path, "--record", wheels)
    offline = {"PIP_INDEX_URL": NOWHERE, "PIP_CONFIG_FILE": os.devnull}
    run_script("build_environment", tmp_path, "--wheels", wheels, "--record", record, **offline)
    python = json.loads(record.read_text())["python"]
    subprocess.run([python, "-c", "import chainer, mpi4py, safetensors, psutil"], check=True)
