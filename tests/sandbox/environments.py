"""Build the frameworks' environments outside the workflow, in the cache as its rules would, or find them there."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.environments.pins import HOROVOD_SOURCE, list_horovod_tools, list_pin_files, resolve_horovod_base
from project import ROOT


def run_script(name: str, *options: str) -> None:
    environment = os.environ | {"PYTHONPATH": "workflow/lib"}
    subprocess.run([sys.executable, f"workflow/scripts/{name}.py", *options], cwd=ROOT, env=environment, check=True)


@cache
def build(name: str, folder: Path) -> Path:
    """Write the record of an environment to `folder`, unless it is there, and return its path."""
    record, horovod = folder / f"{name}.json", []
    if base := resolve_horovod_base(name):
        wheel = folder / f"{name}.horovod.json"
        family = next(entry.family for entry in FRAMEWORKS.values() if name in entry.environments.values())
        run_script(
            *("build_horovod", "--base", str(build(base, folder)), "--family", family, "--device", "cpu"),
            *("--tools", *map(str, list_horovod_tools(name)), "--source", str(HOROVOD_SOURCE), "--record", str(wheel)),
        )
        horovod = ["--horovod", str(wheel)]
    pins = [str(path) for path in list_pin_files(name)]
    run_script("build_environment", "--name", name, "--pins", *pins, *horovod, "--record", str(record))
    return record


def read_python(record: Path) -> str:
    return json.loads(record.read_text())["python"]
