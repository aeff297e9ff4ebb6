"""Run real training outside the workflow, with prepared data, weights and the launcher of a framework's environment."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from environments import run_script
from helpers.specs import make_data, make_spec
from howmanygpus.base.environment import KEEP
from howmanygpus.files import sha256_of_file
from howmanygpus.measure.around.schema import read_record
from howmanygpus.measure.input import writing
from howmanygpus.measure.input.prepared import open_data
from howmanygpus.measure.models.initialization import draw_weights
from howmanygpus.measure.models.networks import list_draws
from howmanygpus.measure.spec import RANDOM_INPUTS, RunSpec
from howmanygpus.registry import FRAMEWORKS
from project import ROOT

BACKENDS = list(FRAMEWORKS)
BY_MPI = {"horovod_controller": "mpi"}
"""Horovod's processes start sooner by MPI than by horovodrun, which imports the framework itself first."""
COMPILE_SOON = {"XLA_FLAGS": "--xla_backend_optimization_level=0", KEEP: "XLA_FLAGS"}
"""This setting halves the time of a JAX run. The gate in tests/gate/ tests the code that XLA has optimised."""


@dataclass
class Finished:
    """The results of one run."""

    exit_status: int
    output: str
    folder: Path

    @property
    def record(self) -> dict:
        return read_record(self.folder / "run" / "run.json")

    @property
    def events(self) -> list[dict]:
        return [json.loads(line) for line in (self.folder / "run" / "events.jsonl").read_text().splitlines()]

    @property
    def predictions(self) -> dict[str, np.ndarray]:
        return dict(np.load(self.folder / "run" / "predictions.npz"))

    @property
    def initial_weights(self) -> dict[str, np.ndarray]:
        return load_file(self.folder / "run" / "initial.safetensors")

    @property
    def final_weights(self) -> dict[str, np.ndarray]:
        return load_file(self.folder / "run" / "final.safetensors")

    @property
    def replicas(self) -> list[dict[str, np.ndarray]]:
        """Return the final trainable weights of each device, of a run that train_in_turn did."""
        return [load_file(path) for path in sorted((self.folder / "replicas").glob("*.safetensors"))]

    @property
    def update(self) -> dict[str, np.ndarray]:
        """Return initial minus final weights. With sgd, rate 1, no momentum and one step, this is the gradient."""
        final = self.final_weights
        return {name: initial - final[name] for name, initial in self.initial_weights.items()}


def write_data(folder: Path, form: str, **changes) -> Path:
    """Write random images to a subfolder of `folder`, as the workflow would prepare them; return the subfolder."""
    data_dir = folder / form
    writing.write_data(folder / "arrays", make_data(**changes))
    if form != "arrays":
        options = ["--arrays", str(folder / "arrays"), "--form", form, "--folder", str(data_dir)]
        run_script("prepare_images", *options)
    return data_dir


def write_inputs(folder: Path, spec: RunSpec, **data_changes) -> RunSpec:
    """Write random data and canonical weights to `folder`; return the spec with their paths."""
    form = "arrays" if spec.input in RANDOM_INPUTS else spec.input
    data_dir, weights_file = write_data(folder / "data", form, **data_changes), folder / "weights.safetensors"
    data = open_data(data_dir, crop_size=spec.crop_size)
    arrays = list_draws(spec.model, data.image_shape, data.num_classes, **spec.model_options)
    save_file(draw_weights(arrays, spec.seed), weights_file)
    weights_file.with_suffix(".json").write_text(json.dumps({"sha256": sha256_of_file(weights_file)}))
    return RunSpec.from_dict(spec.to_dict() | {"data_dir": str(data_dir), "weights_file": str(weights_file)})


def write_attempt(folder: Path, framework: str, data=None, **changes) -> Path:
    """Write the inputs of a run to an empty `folder`, and return the folder of its attempt."""
    entry = FRAMEWORKS[framework]
    names = {"framework": framework} | {key: getattr(entry, key) for key in ("family", "strategy", "launcher")}
    spec = write_inputs(folder, make_spec(**names | changes), **(data or {}))
    attempt = folder / "attempt"
    attempt.mkdir()
    (attempt / "spec.json").write_text(json.dumps(spec.to_dict()))
    return attempt


def start(python: str, words: list[str], *more_paths: Path) -> subprocess.CompletedProcess:
    """Run a module of the library, or of `more_paths`, from the root of the project."""
    paths = os.pathsep.join(map(str, (ROOT / "workflow" / "lib", *more_paths)))
    environment = os.environ | COMPILE_SOON | {"PYTHONPATH": paths}
    return subprocess.run([python, "-m", *words], env=environment, cwd=ROOT, capture_output=True, text=True)


def train(python: str, folder: Path, framework: str, data=None, **changes) -> Finished:
    """Do one run in an empty `folder`, and return it with its weights before and after training."""
    attempt = write_attempt(folder, framework, data, **changes)
    options = ["--attempt", str(attempt), "--run-dir", str(folder / "run"), "--deadline-s", "1200", "--save-weights"]
    result = start(python, ["howmanygpus.measure.launch.launch", *options])
    return Finished(result.returncode, result.stdout + result.stderr, folder)


def train_in_turn(python: str, folder: Path, framework: str, requests: list[dict]) -> list[Finished]:
    """Do several runs with equal devices and launchers in one start of the framework, in an empty `folder`."""
    folders = [folder / str(number) for number in range(len(requests))]
    for own, request in zip(folders, requests, strict=True):
        own.mkdir()
        write_attempt(own, framework, **request)
    attempts = [str(own / "attempt") for own in folders]
    result = start(python, ["measure.launch_in_turn", *attempts], ROOT / "tests")
    return [Finished(result.returncode, result.stdout + result.stderr, own) for own in folders]
