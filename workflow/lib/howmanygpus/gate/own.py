"""
Do the gate's task with a user's own model, in its framework, on one device and without any exchange.

All strategies of the family and all numbers of devices are compared with this. Devices with local BatchNorm are
compared with one device that takes their shares one after the other and adds the gradients; running statistics are not
compared then. The effect of float32 rounding is measured by a second computation from slightly changed weights, and
that of reduced precision, if any is asked for, by a third one in bf16. The noise of bf16 is also used for tf32 and
fp16, although theirs is less: how many ReLU inputs of a small model they move to the other side of zero is a matter of
chance. Without bf16, weights that are rounded as coarsely take its place.
"""

import argparse
import dataclasses
import json
import math
import traceback
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from howmanygpus.files import write_json_atomic
from howmanygpus.gate import process
from howmanygpus.gate.task import (
    GLOBAL_BATCH_SIZE,
    LARGE,
    NOISES,
    OPTIMIZERS,
    compute_rates,
    draw_data,
    make_spec,
    write_task,
)
from howmanygpus.gate.task_forms import Variation
from howmanygpus.measure.loop.backend import UnsupportedError
from howmanygpus.measure.models.initialization import is_trainable
from howmanygpus.measure.models.own import PLAIN, OwnModelError, describe
from howmanygpus.measure.spec import RunSpec

OFF = 2.0**-22
"""Relative change of the weights in the second computation: two units in the last place."""
COARSE = 2.0**-9
"""Relative change of the weights in place of bf16: the largest relative error of a rounding to it."""
Arrays = dict[str, np.ndarray]


def compute(spec: RunSpec, optimizer: str) -> Arrays:
    """Do the task on one device and return its result under the names of gate.reference."""
    _, seen, facts = process.observe(spec, optimizer)
    rate = float(compute_rates(spec)[0])
    start = {name: array.astype(np.float64) for name, array in load_file(spec.weights_file).items()}
    decay = spec.optimizer.weight_decay
    arrays: Arrays = {"losses": np.array(facts["losses"], np.float64)}
    arrays |= {"logits": seen["logits"]} if "logits" in seen else {}
    for name, array in start.items():
        if is_trainable(name):
            arrays[f"gradient/{name}"] = (array - seen[f"first/{name}"]) / rate - decay * array
    in_order = seen["evaluations"][:, np.argsort(seen["samples"], kind="stable")]
    # A constant such as a mask of -inf has no norm. That it is loaded is checked with the weights.
    finite = [name for name, array in start.items() if np.isfinite(array).all()]
    for statistics in ("mean", "first"):
        arrays |= {f"final_{statistics}/{name}": seen[f"final/{name}"] for name in finite}
        arrays[f"evaluations_{statistics}"] = in_order
    return arrays


def compute_shifted(spec: RunSpec, optimizer: str, change: float, folder: Path) -> Arrays:
    """Do the task from weights of which each differs by `change`, relative to itself, with a random sign."""
    weights = load_file(spec.weights_file)
    generator, shifted = np.random.default_rng(3), folder / "shifted.safetensors"
    for name, array in weights.items():
        if is_trainable(name):
            factors = 1 + change * generator.choice([-1, 1], array.shape)
            weights[name] = np.asarray(array * factors, dtype=array.dtype)
    save_file(weights, shifted)
    arrays = compute(RunSpec.from_dict(spec.to_dict() | {"weights_file": str(shifted)}), optimizer)
    shifted.unlink()
    return arrays


def compute_reduced(spec: RunSpec, optimizer: str, precisions: Collection[str], folder: Path) -> Arrays:
    """Do the task in bf16, or from coarsely rounded weights if the model cannot compute in bf16 and need not."""
    try:
        return compute(RunSpec.from_dict(spec.to_dict() | {"precision": "bf16"}), optimizer)
    except UnsupportedError:
        pass
    except Exception as error:
        if "bf16" in precisions:
            remedy = "correct the model, or leave the precision out of the study"
            problem = f"the gate's task in bf16 raised {describe(error)}"
            raise OwnModelError(f"{spec.model_file}: {problem}; {remedy}") from error
        traceback.print_exc()
    return compute_shifted(spec, optimizer, COARSE, folder)


def measure_differences(
    spec: RunSpec, optimizer: str, exact: Arrays, precisions: Collection[str], folder: Path
) -> Arrays:
    """Return `rounding/`, `noise/` and `fine_noise/` of each array, as gate.reference does; noise only if it is needed.

    precisions: those of the runs.
    """
    other = compute_shifted(spec, optimizer, OFF, folder)
    differences = {f"rounding/{name}": 2 * (other[name] - exact[name]) for name in exact if name != "logits"}
    if not {*precisions} - {"fp32"}:
        return differences
    reduced = compute_reduced(spec, optimizer, precisions, folder)
    noise = {name: np.array(np.linalg.norm(reduced[name] - exact[name])) for name in exact}
    return differences | {f"{key}/{name}": noise[name] for key in NOISES.values() for name in exact}


def filter_out(arrays: Arrays, what: str) -> Arrays:
    """Return the arrays without those that cannot be compared between devices. what: `training` or `state`."""
    if what == "training":
        return {name: array for name, array in arrays.items() if name.rpartition("/")[2] == "logits"}
    return {name: array for name, array in arrays.items() if "evaluations_" not in name and not name.endswith(".state")}


def write_expected(
    specs: dict[str, RunSpec],
    variation: Variation,
    num_devices: int,
    draws: bool,
    precisions: Collection[str],
    measured: dict,
    folder: Path,
) -> None:
    """Store the result of each optimizer on a number of devices. precisions: those of the runs."""
    for optimizer, spec in specs.items():
        has_state = any(not is_trainable(name) for name in load_file(spec.weights_file))
        is_local = spec.batchnorm == "local" and has_state and num_devices > 1
        share = variation.share(num_devices)
        parts = share["accumulate"] * (num_devices if is_local else 1)
        sizes = {"accumulate": parts, "per_device_batch_size": GLOBAL_BATCH_SIZE // parts}
        # The learning rates are those of `num_devices` devices, however many parts the one device takes.
        reference = spec.optimizer.lr_reference_batch_size or share["per_device_batch_size"]
        rates = dataclasses.asdict(spec.optimizer) | {"lr_reference_batch_size": reference}
        arrays = compute(RunSpec.from_dict(spec.to_dict() | sizes | {"optimizer": rates}), optimizer)
        if num_devices == 1:
            measured[optimizer] = measure_differences(spec, optimizer, arrays, precisions, folder)
        arrays |= measured[optimizer]
        # On several devices, every part is normalised by the statistics of other images.
        is_mixed = spec.batchnorm == "synchronized" and has_state and spec.accumulate > 1 and num_devices > 1
        if draws or is_mixed:
            arrays = filter_out(arrays, "training")
        elif is_local:
            arrays = filter_out(arrays, "state")
        arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
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
    parser.add_argument("--precisions", nargs="*", default=[], help="precisions of the runs that are to be judged")
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
        write_expected(specs, variation, num_devices, draws, arguments.precisions, measured, folder)
    facts = {
        "devices": sorted(arguments.devices),
        "own_model": True,
        "draws_in_training": draws,
        "precisions": sorted(arguments.precisions),
        "global_batch_size": GLOBAL_BATCH_SIZE,
    }
    facts |= {"model": arguments.model, "model_options": arguments.options, "batchnorm": arguments.batchnorm}
    write_json_atomic(folder / "reference.json", facts)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
