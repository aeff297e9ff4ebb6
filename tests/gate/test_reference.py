"""The gate's reference accepts models whose ReLUs are the family's layer, and refuses all others by name."""

import json
import os
import shutil
import subprocess

import pytest

from howmanygpus.study.gate_cells import list_gated_defaults
from project import ROOT

TORCH_RELUS = {
    "functional": "torch.nn.functional.relu({x})",
    "functional_in_place": "torch.nn.functional.relu({x}, inplace=True)",
    "torch": "torch.relu({x})",
    "torch_in_place": "torch.relu_({x})",
    "method": "{x}.relu()",
    "method_in_place": "{x}.relu_()",
    "module": "nn.ReLU()({x})",
    "module_in_place": "nn.ReLU(inplace=True)({x})",
}
SCRIPT = """
import json, sys
from howmanygpus.gate import reference

folder, defaults, *models = sys.argv[1:]
MORE = ["--variation", "_sgd-constant", "--defaults", defaults, "--devices", "1", "3"]
refusals = {}
for model in models:
    options = ["--model", model, "--image-shape", "6", "6", "1", "--num-classes", "3", "--batchnorm", "local", *MORE]
    sys.argv[1:] = [*options, "--folder", f"{folder}/{model}"]
    try:
        reference.main()
    except Exception as error:
        refusals[model] = f"{type(error).__name__}: {error}"
print(json.dumps(refusals))
"""

COUNT = """
import json
import sys
from pathlib import Path
import torch
from howmanygpus.measure.frameworks.torch.layers.relu import replace_relu
from howmanygpus.gate import reference
from howmanygpus.gate.relus import GatedRelu, Halving, Measuring
from howmanygpus.gate.task import draw_data, draw_task_weights, make_spec

SHAPE = (6, 6, 1)
framework = {"framework": "reference", "family": "torch", "strategy": "none", "launcher": "plain"}
cell = {"model": "small_cnn", "precision": "fp64", "device": "cpu", "batchnorm": "local"}
cell |= {"device_kind": "cpu", "cores_per_device": 1, "crop": (SHAPE[0] + 2, SHAPE[1] + 3)}
cell |= {"variation": "_sgd-constant"}
size, defaults = {"num_gpus": 1, "num_nodes": 1}, json.loads(sys.argv[2])
spec = make_spec(framework, cell, size, "sgd", Path(sys.argv[1]), defaults)
weights = draw_task_weights("small_cnn", SHAPE, 3)

def near_in_half_of_the_channels(layer):
    torch.nn.init.zeros_(layer.weight)
    layer.bias.data[:] = torch.arange(len(layer.bias)) % 2

with replace_relu(GatedRelu.apply):
    for reset in (torch.nn.Conv2d.reset_parameters, near_in_half_of_the_channels):
        torch.nn.Conv2d.reset_parameters = reset
        drawn = [draw_data(SHAPE, 3, seed) for seed in range(4)]
        print(*(reference.compute_and_count(spec, data, weights, 3)[1] for data in drawn))
    exact = Measuring()
    x = torch.tensor([-1.0, -1e-4, 1e-4, 1.0], requires_grad=True)
    exact.seen.append((x.detach(), 1e-3))
    GatedRelu.watcher = Halving(exact)
    GatedRelu.apply(x).sum().backward()
    print(*x.grad.tolist())
    # Another task is so far from the exact one that both inputs in the middle could be on the other side of zero.
    exact.seen.append((x.detach() + 1e-4, 1e-6))
    x.grad = None
    GatedRelu.apply(x).sum().backward()
    print(*x.grad.tolist())
"""


GROWTH = """
import json
import sys
from pathlib import Path
import numpy as np
import torch
from howmanygpus.measure.frameworks.torch.layers.relu import replace_relu
from howmanygpus.gate import reference
from howmanygpus.gate.relus import GatedRelu, Measuring
from howmanygpus.gate.task import draw_data, draw_task_weights, make_spec

torch.set_num_threads(1)
SHAPE = (32, 32, 3)
framework = {"framework": "reference", "family": "torch", "strategy": "none", "launcher": "plain"}
cell = {"model": "resnet50", "precision": "fp64", "device": "cpu", "batchnorm": "local"}
cell |= {"device_kind": "cpu", "cores_per_device": 1, "crop": (SHAPE[0] + 2, SHAPE[1] + 3)}
cell |= {"variation": "_sgd-constant"}
size, defaults = {"num_gpus": 1, "num_nodes": 1}, json.loads(sys.argv[2])
spec = make_spec(framework, cell, size, "sgd", Path(sys.argv[1]), defaults)
data, weights, measured = draw_data(SHAPE, 10, 0), draw_task_weights("resnet50", SHAPE, 10), Measuring()
with replace_relu(GatedRelu.apply):
    exact = reference.compute(spec, data, weights, 1, measured)["losses"]
    distances = [distance for _, distance in measured.seen]
    single = reference.compute(spec, data, weights, 1, dtype=torch.float32)["losses"]
print(np.abs(single / exact - 1).max(), len(distances), min(distances), max(distances))
"""

ROUNDING = """
import numpy as np
import torch
from howmanygpus.gate import rounding_noise
from howmanygpus.gate.rounding import SimulatedRounding

torch.set_num_threads(1)
weights = torch.full((1, 1, 1, 1), 1 + 2.0**-9, dtype=torch.float64)
x = torch.ones(1, 1, 50, 50, dtype=torch.float64, requires_grad=True)
with SimulatedRounding("bf16", 1):
    result = torch.nn.functional.conv2d(x, weights)
    result.sum().backward()
    scaled = (x * weights).detach()
print(*result.detach().unique().tolist(), *x.grad.unique().tolist())
print(len(scaled.unique()))

differences = {"float64": [0.0], "bf16": [3.0, 4.0], "fp16": [0.1, 0.7]}
def compute(*_, arithmetic=None, skipped_step=None):
    precision = "float64" if arithmetic is None else arithmetic.precision
    return {"array": np.array([differences[precision].pop(0)])}

rounding_noise.compute = compute
rounding_noise.SimulatedRounding = lambda precision, seed: type("Arithmetic", (), {"precision": precision})
measured = rounding_noise.measure(None, None, {}, 1, {"array": np.zeros(1)}, [1, 2])
print(*(f"{name}={array.item():.4f}" for name, array in measured.items()))
resnet44, large = 658_586, 25_600_000
cases = [(50_000, (224, 224, 3)), (resnet44, (8, 8, 3)), (resnet44, (32, 32, 3)), (large, (8, 8, 3))]
print(*(len(rounding_noise.choose_seeds(*case)) for case in cases))
"""


@pytest.fixture(scope="module")
def refusals(environment_python, kept):
    """What the reference said of small_cnn and of its copies with other ReLUs, by model; nothing of accepted models."""

    def make(folder):
        library = shutil.copytree(ROOT / "workflow" / "lib", folder / "lib")
        measure = library / "howmanygpus" / "measure"
        network = (measure / "networks" / "small_cnn.py").read_text()
        for name, own in TORCH_RELUS.items():
            (measure / "networks" / f"{name}.py").write_text(network.replace("layers.relu", f"layers.{name}"))
            shutil.copy2(measure / "models" / "layers" / "relu.py", measure / "models" / "layers" / f"{name}.py")
            function = f"import torch\nfrom torch import nn\n\n\ndef relu(x):\n    return {own.format(x='x')}\n"
            (measure / "frameworks" / "torch" / "layers" / f"{name}.py").write_text(function)
        words = [
            "-W",
            "ignore",
            "-c",
            SCRIPT,
            str(folder),
            json.dumps(list_gated_defaults()),
            "small_cnn",
            *TORCH_RELUS,
        ]
        environment = os.environ | {"PYTHONPATH": str(library)}
        command = [environment_python("pytorch-cpu"), *words]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        shutil.rmtree(library)
        made = sorted(path.name for path in (folder / "small_cnn").glob("*.devices*"))
        (folder / "refusals.json").write_text(result.stdout.splitlines()[-1])
        (folder / "made.json").write_text(json.dumps(made))

    folder = kept("refusals-of-the-reference", "pytorch-cpu", make, SCRIPT, TORCH_RELUS)
    return json.loads((folder / "refusals.json").read_text()) | {"made": json.loads((folder / "made.json").read_text())}


def test_a_reference_is_computed_for_the_numbers_of_devices_that_are_asked_for(refusals):
    assert refusals["made"] == [f"{name}.devices{number}.safetensors" for name in ("own", "sgd") for number in (1, 3)]


def test_the_layer_is_accepted(refusals):
    assert "small_cnn" not in refusals


@pytest.mark.parametrize("model", TORCH_RELUS)
def test_the_relu_of_pytorch_is_refused_with_the_remedy(model, refusals):
    assert refusals.get(model, "accepted").startswith(f"RefusedReluError: model {model} calls ")
    assert "in its torch.py use relu of" in refusals[model]


@pytest.fixture(scope="module")
def say(environment_python, kept):
    """A function from a name and a program to the lines that it prints in PyTorch's environment."""

    def run(name, program):
        def make(folder):
            command = [environment_python("pytorch-cpu"), "-W", "ignore", "-c", program, str(folder)]
            command.append(json.dumps(list_gated_defaults()))
            environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "lib")}
            result = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert result.returncode == 0, result.stderr[-3000:]
            (folder / "said.txt").write_text(result.stdout)

        return (kept(name, "pytorch-cpu", make, program) / "said.txt").read_text().splitlines()

    return run


def test_weights_that_are_replaced_do_not_decide_which_images_the_task_has(say):
    """A network's own initial weights, which are random, are replaced by the task's."""
    usual, near, *_ = say("relus-near-zero", COUNT)
    assert near == usual


def test_gradients_are_halved_on_both_sides_of_zero(say):
    assert say("relus-near-zero", COUNT)[-2:] == ["0.0 0.5 0.5 1.0"] * 2, "by rounding, and by what it changed before"


def test_rounding_stays_small_in_the_task_of_a_deep_network(say):
    """In ResNet-50 with offsets around zero, float32 changes the losses by a third within six steps."""
    (line,) = say("growth-of-rounding", GROWTH)
    largest, num_relus, *distances = map(float, line.split())
    assert largest < 1e-5
    assert num_relus == 6 * 49, "each ReLU of each step has a distance"
    assert 4e-6 <= distances[0] < distances[1] < 1e-4


def test_weights_are_rounded_to_nearest_in_products_alone(say):
    """As frameworks cast them. Otherwise each result would be rounded by itself, which cancels in a mean."""
    products, others, *_ = say("simulated-rounding", ROUNDING)
    assert products == "1.0 1.0", "a convolution by 1 + 2**-9 and its gradient"
    assert others == "2", "BatchNorm's scale stays in float32"


def test_noise_is_a_mean_over_simulations(say):
    """In root mean square."""
    assert say("simulated-rounding", ROUNDING)[2] == "skipped/array=0.0000 noise/array=3.5355 fine_noise/array=0.5000"


def test_noise_is_simulated_often_where_one_simulation_tells_too_little(say):
    """In a network with few parameters or small images, whether rounding moves one ReLU input decides by much."""
    assert say("simulated-rounding", ROUNDING)[3] == "8 8 1 1"
