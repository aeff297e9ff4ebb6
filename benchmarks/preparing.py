"""Data, weights and environments for the benchmarks that train."""

import json
from pathlib import Path

from reporting import ROOT

# isort: split
from environments import build, read_python, run_script
from howmanygpus.registry import FRAMEWORKS

RECORDS = ROOT / "results" / "benchmarks"
SHAPE = {"image_shape": [32, 32, 3], "num_classes": 10, "num_train": 4096, "num_test": 16}


def prepare(folder: Path) -> None:
    """Write random images and initial weights into a folder."""
    options = ["--source", "synthetic", "--options", json.dumps(SHAPE), "--folder", str(folder / "data")]
    run_script("prepare_arrays", *options)
    shape = ["--image-shape", "32", "32", "3", "--num-classes", "10", "--seed", "1"]
    run_script("initialize_weights", "--model", "resnet44", *shape, "--weights", str(folder / "weights.safetensors"))


def resolve_python(framework: str) -> str:
    """Return the Python of a framework's CPU environment, which is built in the cache if it is missing."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    return read_python(build(FRAMEWORKS[framework].environments["cpu"], RECORDS))
