"""
Do the gate's task with a user's own model, in its framework, on one device and without any exchange.

All strategies of the family and all numbers of devices are compared with this. Devices with local BatchNorm are
compared with one device that takes their shares one after the other and adds the gradients; running statistics are not
compared then. The effect of float32 rounding is measured by a second computation from slightly changed weights, and
that of reduced precision by a third one in bf16. The noise of bf16 is also used for tf32 and fp16, although theirs is
less: how many ReLU inputs of a small model they move to the other side of zero is a matter of chance.

The gate's reference of a user's folder is computed from its torch.py, which is checked here against parameters.py.
"""

import argparse
import dataclasses
import importlib
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import nn

from howmanygpus.files import write_json_atomic
from howmanygpus.gate import process
from howmanygpus.gate.relus import RefusedReluError
from howmanygpus.gate.task import (
    GLOBAL_BATCH_SIZE,
    LARGE,
    NOISES,
    NUM_TRAIN,
    OPTIMIZERS,
    compute_keys,
    draw_data,
    draw_task_weights,
    make_spec,
    write_task,
)
from howmanygpus.gate.task_forms import Variation
from howmanygpus.measure.frameworks.torch.family import AXES_TO_TORCH, torch_name
from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.loop.backend import UnsupportedError
from howmanygpus.measure.loop.schedule import count_steps_per_epoch, learning_rates
from howmanygpus.measure.models.initialization import is_trainable
from howmanygpus.measure.models.own import PACKAGE, PLAIN, add_folder
from howmanygpus.measure.spec import RunSpec

COUNTER = "num_batches_tracked"


class FolderError(Exception):
    """The user's torch.py is wrong. The message names the file, what is wrong, and what to do."""


def check_or_exit(folder: str, image_shape: tuple[int, int, int], num_classes: int, options: dict) -> None:
    """Let the folder be imported, and end with the error of torch.py if it is wrong.

    folder: empty for a network of the workflow, for which nothing is checked here.
    """
    if not folder:
        return
    add_folder(folder)
    weights = draw_task_weights(Path(folder).name, image_shape, num_classes, **options)
    try:
        check_folder(folder, image_shape, num_classes, options, weights)
    except FolderError as error:
        # The traceback of the user's code says where; the last line says what to do.
        if error.__cause__ is not None:
            sys.excepthook(type(error.__cause__), error.__cause__, error.__cause__.__traceback__)
        sys.exit(str(error))


def check_folder(
    folder: str, image_shape: tuple[int, int, int], num_classes: int, options: dict, weights: dict[str, np.ndarray]
) -> None:
    """Raise FolderError unless torch.py builds a model with the arrays `weights` that can be trained."""
    file = str(Path(folder, "torch.py"))
    module = _call(file, "cannot be imported", importlib.import_module, f"{PACKAGE}.{Path(folder).name}.torch")
    context = LayerContext("local", 1)
    model = _call(file, "has a build that raised", module.build, image_shape, num_classes, context, **options)
    if not isinstance(model, nn.Module):
        raise FolderError(f"{file}: build returned {type(model).__name__}; return a torch.nn.Module")
    _check_arrays(file, model, weights)
    images = np.random.default_rng(0).integers(0, 256, (2, *image_shape), dtype=np.uint8)
    keys = [torch.from_numpy(each) for each in compute_keys(model, images, 1)]
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    logits = _call(file, "has a model that raised", model.train(), x, *keys)
    if not isinstance(logits, torch.Tensor) or logits.shape != (2, num_classes):
        found = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise FolderError(f"{file}: the model returned {found} for 2 images; return logits {(2, num_classes)}")
    if not torch.isfinite(logits).all():
        raise FolderError(f"{file}: the model returned logits that are not finite; correct it or its initial weights")
    if logits.requires_grad:
        logits.sum().backward()
    if unused := [name for name, parameter in model.named_parameters() if parameter.grad is None]:
        raise FolderError(f"{file}: {', '.join(unused[:3])} take no part in the logits; remove them, or train them")


def _check_arrays(file: str, model: nn.Module, weights: dict[str, np.ndarray]) -> None:
    """Raise FolderError unless the model has the arrays of parameters.py under PyTorch's names, in its layouts."""
    shapes = {name: tuple(array.transpose(AXES_TO_TORCH.get(array.ndim)).shape) for name, array in weights.items()}
    expected = {torch_name(name): (name, shape) for name, shape in shapes.items()}
    found = {name: tuple(each.shape) for name, each in model.state_dict().items() if not name.endswith(COUNTER)}
    for name, (canonical, shape) in expected.items():
        if name not in found:
            raise FolderError(f"{file}: the model lacks {name}, which is {canonical} of parameters.py; {_name(name)}")
        if found[name] != shape:
            remedy = "correct one of them; a kernel of parameters.py is (height, width, in, out) or (in, out)"
            problem = f"{name} has shape {found[name]}, and {canonical} of parameters.py means {shape}"
            raise FolderError(f"{file}: {problem}; {remedy}")
    if others := sorted(found.keys() - expected.keys()):
        remedy = "add them there under the layer's name with .kernel, .bias, .scale, .offset, .mean or .variance"
        raise FolderError(f"{file}: the model has {', '.join(others[:3])}, not in parameters.py; {remedy}")
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    for name, (canonical, _) in expected.items():
        if is_trainable(canonical) and name not in trained:
            raise FolderError(f"{file}: {name} needs no gradient; train all of the model, as the other families do")


def _name(name: str) -> str:
    return f"register the layer as {name.rpartition('.')[0]} or correct the name there"


def _call(file: str, problem: str, function: Callable, *values, **options):
    try:
        return function(*values, **options)
    except RefusedReluError as error:
        raise FolderError(f"{file}: {error}") from None
    except (Exception, SystemExit) as error:
        raise FolderError(f"{file} {problem}: {type(error).__name__}: {error}; correct it") from error


OFF = 2.0**-22
"""Relative change of the weights in the second computation: two units in the last place."""
Arrays = dict[str, np.ndarray]


def compute(spec: RunSpec, optimizer: str) -> Arrays:
    """Do the task on one device and return its result under the names of gate.reference."""
    _, seen, facts = process.observe(spec, optimizer)
    rate = float(learning_rates(spec, count_steps_per_epoch(NUM_TRAIN, spec.global_batch_size))[0])
    start = {name: array.astype(np.float64) for name, array in load_file(spec.weights_file).items()}
    decay = spec.optimizer.weight_decay
    arrays: Arrays = {"losses": np.array(facts["losses"], np.float64)}
    arrays |= {"logits": seen["logits"]} if "logits" in seen else {}
    for name, array in start.items():
        if is_trainable(name):
            arrays[f"gradient/{name}"] = (array - seen[f"first/{name}"]) / rate - decay * array
    in_order = seen["evaluations"][:, np.argsort(seen["samples"], kind="stable")]
    for statistics in ("mean", "first"):
        arrays |= {f"final_{statistics}/{name}": seen[f"final/{name}"] for name in start}
        arrays[f"evaluations_{statistics}"] = in_order
    return arrays


def measure_differences(spec: RunSpec, optimizer: str, exact: Arrays, folder: Path) -> Arrays:
    """Return `rounding/`, `noise/` and `fine_noise/` of each array, as gate.reference does."""
    weights = load_file(spec.weights_file)
    generator, shifted = np.random.default_rng(3), folder / "shifted.safetensors"
    for name, array in weights.items():
        if is_trainable(name):
            weights[name] = (array * (1 + OFF * generator.choice([-1, 1], array.shape))).astype(array.dtype)
    save_file(weights, shifted)
    other = compute(RunSpec.from_dict(spec.to_dict() | {"weights_file": str(shifted)}), optimizer)
    shifted.unlink()
    differences = {f"rounding/{name}": 2 * (other[name] - exact[name]) for name in exact if name != "logits"}
    try:
        reduced = compute(RunSpec.from_dict(spec.to_dict() | {"precision": "bf16"}), optimizer)
    except UnsupportedError:
        reduced = exact
    noise = {name: np.array(np.linalg.norm(reduced[name] - exact[name])) for name in exact}
    return differences | {f"{key}/{name}": noise[name] for key in NOISES.values() for name in exact}


def filter_out(arrays: Arrays, what: str) -> Arrays:
    """Return the arrays without those that cannot be compared between devices. what: `training` or `state`."""
    if what == "training":
        return {name: array for name, array in arrays.items() if name.rpartition("/")[2] == "logits"}
    return {name: array for name, array in arrays.items() if "evaluations_" not in name and not name.endswith(".state")}


def write_expected(specs: dict[str, RunSpec], num_devices: int, draws: bool, measured: dict, folder: Path) -> None:
    """Store the result of each optimizer on a number of devices."""
    for optimizer, spec in specs.items():
        has_state = any(not is_trainable(name) for name in load_file(spec.weights_file))
        is_local = spec.batchnorm == "local" and has_state and num_devices > 1
        parts = spec.accumulate * (num_devices if is_local else 1)
        sizes = {"accumulate": parts, "per_device_batch_size": GLOBAL_BATCH_SIZE // parts}
        # The learning rates are those of `num_devices` devices, however many parts the one device takes.
        reference = spec.optimizer.lr_reference_batch_size or spec.per_device_batch_size // num_devices
        rates = dataclasses.asdict(spec.optimizer) | {"lr_reference_batch_size": reference}
        arrays = compute(RunSpec.from_dict(spec.to_dict() | sizes | {"optimizer": rates}), optimizer)
        if num_devices == 1:
            measured[optimizer] = measure_differences(spec, optimizer, arrays, folder)
        arrays |= measured[optimizer]
        # On several devices, every part is normalised by the statistics of other images.
        is_mixed = spec.batchnorm == "synchronized" and has_state and spec.accumulate > 1 and num_devices > 1
        if draws or is_mixed:
            arrays = filter_out(arrays, "training")
        elif is_local:
            arrays = filter_out(arrays, "state")
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        save_file(arrays or {"none": np.zeros(1)}, folder / f"{optimizer}.devices{num_devices}.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=PLAIN, required=True)
    parser.add_argument("--model", required=True, help="its name")
    parser.add_argument("--model-file", required=True)
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: options for build")
    parser.add_argument("--image-shape", type=int, nargs=3, required=True, help="height, width, channels")
    parser.add_argument("--num-classes", type=int, required=True)
    parser.add_argument("--batchnorm", choices=("local", "synchronized"), required=True)
    parser.add_argument("--variation", type=Variation.read, required=True, help="end of the name of the task's folder")
    parser.add_argument("--defaults", type=json.loads, required=True, help="JSON: defaults of the other settings")
    parser.add_argument("--weights", type=Path, required=True, help="record of the initial weights, beside them")
    parser.add_argument("--folder", type=Path, required=True, help="where task and reference are written")
    parser.add_argument("--devices", type=int, nargs="+", required=True, help="numbers of devices to be compared with")
    parser.add_argument("--threads", type=int, default=1, help="cores for images of many pixels (default 1)")
    arguments = parser.parse_args()
    shape, folder, variation = tuple(arguments.image_shape), arguments.folder, arguments.variation
    weights = load_file(arguments.weights.with_suffix(".safetensors"))
    draws = json.loads(arguments.weights.read_text())["draws_in_training"]
    data = draw_data(shape, arguments.num_classes, seed=0, multi_label=variation.multi_label)
    write_task(folder, data, weights)
    strategy = PLAIN[arguments.family]
    framework = {"framework": "reference", "family": arguments.family, "strategy": strategy, "launcher": "plain"}
    cell: dict[str, Any] = {"model": arguments.model, "model_file": arguments.model_file, "precision": "fp32"}
    cell |= {"model_options": arguments.options, "batchnorm": arguments.batchnorm, "variation": str(variation)}
    threads = arguments.threads if math.prod(shape) >= LARGE else 1
    cell |= {"device": "cpu", "device_kind": "cpu", "cores_per_device": threads, "crop": shape[:2]}
    size = {"num_gpus": 1, "num_nodes": 1}
    measured: dict[str, Arrays] = {}
    specs = {name: make_spec(framework, cell, size, name, folder, arguments.defaults) for name in OPTIMIZERS}
    # The effect of rounding is measured on one device.
    for num_devices in sorted({1, *arguments.devices}):
        write_expected(specs, num_devices, draws, measured, folder)
    facts = {
        "devices": sorted(arguments.devices),
        "own_model": True,
        "draws_in_training": draws,
        "global_batch_size": GLOBAL_BATCH_SIZE,
    }
    facts |= {"model": arguments.model, "model_options": arguments.options, "batchnorm": arguments.batchnorm}
    write_json_atomic(folder / "reference.json", facts)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
