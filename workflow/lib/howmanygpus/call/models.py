"""Tries users' models where Snakemake runs, so that a wrong file is known before any job is submitted."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from howmanygpus.plan.own.model import OwnModel
from howmanygpus.plan.plan import Plan
from howmanygpus.surroundings.environment import build_surroundings

RULE = "initialize_own_weights"
LONGEST_S = 120.0
MACHINE = ("MemoryError", "OSError", "ImportError: ", "not enough memory", "RESOURCE_EXHAUSTED")
"""Words of errors for which the machine may be to blame, such as one with little memory for each user."""


def refuse_models(plan: Plan, jobs: Iterable[Any], warn: Callable[[str], None]) -> list[str]:
    """Return the errors of wrong files whose weights will be drawn. As in those jobs, each model is built and called.

    A model whose environment is not built yet is left to its job, and so is one that fails for a reason other than its
    file. warn: prints a message about it.
    """
    waiting, refused = {}, []
    for job in jobs:
        if job.rule.name == RULE:
            waiting[job.wildcards.own_model + job.wildcards.options] = job
    for network, job in sorted(waiting.items()):
        model = plan.own_models[network]
        python = find_built(str(job.input.environment))
        ended = python and try_model(python, model, plan.networks[network], job.wildcards)
        if ended and ended.startswith(model.path) and not any(word in ended for word in MACHINE):
            refused.append(ended)
        elif ended:
            warn(f"{model.path}: it could not be tried here ({ended}), and its first job will tell if it is right")
    return refused


def find_built(record: str) -> str:
    """Return the Python of an environment, or an empty text if it does not exist."""
    if not Path(record).exists():
        return ""
    python = json.loads(Path(record).read_text())["python"]
    return python if os.access(python, os.X_OK) else ""


def try_model(python: str, model: OwnModel, options: dict, wildcards: Any) -> str:
    """Return the last line of the check's output if a model is wrong; empty if it is right."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-m", "howmanygpus.train.frameworks.own_models.initialize", "--family", model.family]
        command += ["--model-file", model.path, "--options", json.dumps(options)]
        command += ["--image-shape", wildcards.height, wildcards.width, wildcards.channels]
        command += ["--num-classes", wildcards.num_classes, "--seed", wildcards.seed]
        command += ["--weights", str(Path(folder, "weights.safetensors"))]
        variables = build_surroundings(os.environ) | {"PYTHONPATH": "workflow/lib", "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            return f"it took more than {LONGEST_S:g} s"
    if done.returncode == 0:
        return ""
    return (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
