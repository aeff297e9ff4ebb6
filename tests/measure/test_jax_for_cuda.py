"""The program of a JAX training step that XLA would compile for a GPU."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from gate.cells import find_short_networks
from project import ROOT

OPTIONS = find_short_networks("flax")
PRODUCTS = {"fp32": (["f32"], ["HIGHEST"]), "tf32": (["f32"], ["HIGH"]), "bf16": (["bf16"], ["DEFAULT"])}
"""Formats of operands, and the precision that XLA is asked for. At HIGH or below, it uses TF32 for f32."""


@pytest.fixture(scope="module")
def seen(environment_python, kept):
    """What was seen of each network in each precision."""

    def lower(folder):
        folders = [ROOT / "workflow" / "lib", ROOT / "tests"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
        program = Path(__file__).with_name("lower_for_cuda.py")
        command = [environment_python("jax-cpu"), program, json.dumps(OPTIONS)]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        (folder / "seen.json").write_text(result.stdout.splitlines()[-1])

    return json.loads((kept("jax-for-cuda", "jax-cpu", lower, OPTIONS) / "seen.json").read_text())


@pytest.mark.parametrize("precision", PRODUCTS)
@pytest.mark.parametrize("model", OPTIONS)
def test_products_on_a_gpu_have_the_formats_of_the_precision(seen, model, precision):
    found = seen[f"{model}-{precision}"]
    assert (found["formats"], found["precisions"]) == PRODUCTS[precision]


@pytest.mark.parametrize("model", OPTIONS)
def test_a_step_takes_over_the_memory_of_all_weights_moments_and_statistics(seen, model):
    """Otherwise each would be in memory twice."""
    found = seen[f"{model}-fp32"]
    assert found["donated"] == found["state"] > 2


@pytest.mark.parametrize("model", OPTIONS)
def test_a_start_compiles_one_program_before_the_first_step(seen, model):
    """It makes the optimizer's moments. flax would draw weights that are then replaced, by a program for each shape."""
    assert seen[f"{model}-fp32"]["compiled"] == 1
