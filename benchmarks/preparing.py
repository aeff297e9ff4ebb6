"""Data, weights and environments for the benchmarks that train."""

import json
import os
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

from reporting import ROOT

# isort: split
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.environments.build import build_environment
from howmanygpus.site.environments.horovod import build_horovod
from howmanygpus.site.environments.pins import HOROVOD_SOURCE, list_horovod_tools, list_pin_files, resolve_horovod_base

SHAPE = {"image_shape": [32, 32, 3], "num_classes": 10, "num_train": 4096, "num_test": 16}


def run_script(name: str, *options: str) -> None:
    """Run one of the workflow's scripts."""
    environment = os.environ | {"PYTHONPATH": "workflow/lib"}
    subprocess.run([sys.executable, f"workflow/scripts/{name}.py", *options], cwd=ROOT, env=environment, check=True)


def prepare(folder: Path) -> None:
    """Write random images and initial weights into a folder."""
    options = ["--source", "synthetic", "--options", json.dumps(SHAPE), "--folder", str(folder / "data")]
    run_script("prepare_arrays", *options)
    shape = ["--image-shape", "32", "32", "3", "--num-classes", "10", "--seed", "1"]
    run_script("initialize_weights", "--model", "resnet44", *shape, "--weights", str(folder / "weights.safetensors"))


def resolve_python(framework: str) -> str:
    """Return the Python of a framework's CPU environment, which is built in the cache if it is missing."""
    entry, horovod = FRAMEWORKS[framework], None
    name = entry.environments["cpu"]
    with chdir(ROOT):
        if base := resolve_horovod_base(name):
            ingredients = (build_environment(base, list_pin_files(base)), list_horovod_tools(name), HOROVOD_SOURCE)
            horovod = build_horovod(*ingredients, entry.family, "cpu", len(os.sched_getaffinity(0)))
        return build_environment(name, list_pin_files(name), horovod)["python"]
