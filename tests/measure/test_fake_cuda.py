"""What PyTorch would compute on a GPU, by the shapes and formats of a fake one."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from gate.cells import find_short_networks
from project import ROOT

OPTIONS = find_short_networks("torch")
FORMATS = {"fp32": "torch.float32", "bf16": "torch.bfloat16", "fp16": "torch.float16"}
LAYOUTS = {"stock": "NCHW", "best": "NHWC"}


@pytest.fixture(scope="module")
def seen(environment_python, kept):
    """What was seen of each network, in each precision and tier."""

    def trace(folder):
        folders = [ROOT / "workflow" / "lib", ROOT / "tests"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
        program = Path(__file__).with_name("trace_fake_cuda.py")
        command = [environment_python("pytorch-cpu"), program, json.dumps(OPTIONS)]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        (folder / "seen.json").write_text(result.stdout.splitlines()[-1])

    return json.loads((kept("fake-cuda", "pytorch-cpu", trace, OPTIONS) / "seen.json").read_text())


@pytest.mark.parametrize("tier", LAYOUTS)
@pytest.mark.parametrize("precision", FORMATS)
@pytest.mark.parametrize("model", OPTIONS)
def test_products_on_a_gpu_have_the_formats_of_the_precision_and_the_layout_of_the_tier(seen, model, precision, tier):
    """Weights, moments, loss and logits are float32 in every precision, and nothing is left on the CPU."""
    found = seen[f"{model}-{precision}-{tier}"]
    assert found["formats"] == [f"cuda {FORMATS[precision]}"]
    assert found["layouts"] == [LAYOUTS[tier]]
    assert found["kept"] == found["results"] == ["cuda torch.float32"]


@pytest.mark.parametrize("model", OPTIONS)
def test_the_best_tier_compiles_for_each_shape_and_fuses_the_optimizer(seen, model):
    """By default PyTorch compiles for all sizes from the second shape on."""
    for precision in FORMATS:
        best, stock = (seen[f"{model}-{precision}-{tier}"] for tier in ("best", "stock"))
        assert best["compiled"] == [{"mode": "default", "dynamic": False}] and stock["compiled"] == []
        assert best["is_fused"]
