"""
Compute the reference result of the gate's task in float64.

The model runs on PyTorch's CPU kernels; everything else is written out here. If BatchNorm is local, each device's share
goes through the network by itself.

A ReLU either passes the gradient or blocks it. If its input is so near to zero that float32 rounding decides, both
results are correct. The task is therefore done once more with half of such gradients (relus.py). Twice the differences
are stored as the part of each tolerance that allows for such inputs. The task is also done in float32, which shows how
fast rounding grows with the depth of the network and from step to step. What reduced precision may change is measured
separately (rounding_noise.py), because most studies train in fp32 alone.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from howmanygpus.files import write_json_atomic
from howmanygpus.gate.own_folder import check_or_exit
from howmanygpus.gate.rates import compute_rates
from howmanygpus.gate.relus import GatedRelu, Halving, Measuring, RefuseTorchRelus, Watcher
from howmanygpus.gate.shards import Reference
from howmanygpus.gate.task import (
    EVAL_EVERY_EPOCHS,
    FLOAT32,
    GLOBAL_BATCH_SIZE,
    LARGE,
    NUM_STEPS,
    OPTIMIZERS,
    SCHEDULE_STRIDE,
    WINDOWS,
    draw_data,
    draw_task_weights,
    make_spec,
    write_task,
)
from howmanygpus.gate.task_forms import Variation
from howmanygpus.measure.frameworks.torch.layers.relu import replace_relu
from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.prepared import PreparedData, crop_data
from howmanygpus.measure.models.initialization import is_trainable
from howmanygpus.measure.models.saving import save_arrays
from howmanygpus.measure.spec import RunSpec

NUM_CANDIDATES = 4
"""Number of sets of random images; the task uses the set with the fewest ReLU inputs near zero."""
STATISTICS = {"mean": "mean of all devices", "first": "first device"}
"""Origin of the running statistics that evaluation uses; see Backend.running_statistics."""
Arrays = dict[str, np.ndarray]


def compute(
    spec: RunSpec,
    data: PreparedData,
    weights: dict,
    num_shards: int,
    watcher: Watcher | None = None,
    arithmetic: AbstractContextManager | None = None,
    dtype: torch.dtype = torch.float64,
    skipped_step: int | None = None,
) -> Arrays:
    """Return the arrays of the task on `num_shards` devices; see `advance`."""
    *_, arrays = advance(spec, data, weights, num_shards, watcher, arithmetic, dtype, skipped_step)
    return arrays


def advance(
    spec: RunSpec,
    data: PreparedData,
    weights: dict,
    num_shards: int,
    watcher: Watcher | None,
    arithmetic: AbstractContextManager | None = None,
    dtype: torch.dtype = torch.float64,
    skipped_step: int | None = None,
) -> Iterator[Arrays]:
    """Do the task on `num_shards` devices and yield its arrays after each step; they are complete after the last.

    watcher, arithmetic, dtype: see Reference. skipped_step: a step, counted from 1, that sees its images and updates
    nothing.
    """
    reference = Reference(spec, data, weights, num_shards, arithmetic or nullcontext(), watcher, dtype)
    arrays = {"logits": reference.predict(data.test_images[np.arange(GLOBAL_BATCH_SIZE)], "first device")}
    losses: list[float] = []
    evaluations: dict[str, list[np.ndarray]] = {key: [] for key in STATISTICS}
    batches, updates = TrainingBatches(spec, data, rank=0, num_processes=1), 0
    longer = compute_rates(spec, SCHEDULE_STRIDE * batches.steps_per_epoch, SCHEDULE_STRIDE * NUM_STEPS)
    rates = longer[SCHEDULE_STRIDE - 1 :: SCHEDULE_STRIDE]
    for step, (batch, rate) in enumerate(zip(batches, rates, strict=True), start=1):
        loss, gradients = reference.compute_gradients(*batch, step)
        losses.append(loss)
        if step == 1:
            arrays |= {f"gradient/{name}": array for name, array in reference.read_gradients(gradients).items()}
        if step != skipped_step:
            updates += 1
            reference.update(gradients, spec.optimizer, rate, updates)
        if step % (EVAL_EVERY_EPOCHS * batches.steps_per_epoch) == 0 or step == NUM_STEPS:
            for key, statistics in STATISTICS.items():
                is_same = num_shards == 1 and key != "mean"
                losses_of_images = evaluations["mean"][-1] if is_same else reference.evaluate(statistics)
                evaluations[key].append(losses_of_images)
        if step < NUM_STEPS:
            yield arrays
    arrays["losses"] = np.array([np.mean([losses[step - 1] for step in w]) for w in WINDOWS[spec.window_steps]])
    for key, statistics in STATISTICS.items():
        arrays |= {f"final_{key}/{name}": array for name, array in reference.read_weights(statistics).items()}
        arrays[f"evaluations_{key}"] = np.array(evaluations[key])
    yield arrays


def compute_with_rounding(spec: RunSpec, data: PreparedData, weights: dict, num_shards: int, has_near: bool) -> Arrays:
    """Return the arrays of the exact task, and the changes that float32 may cause in each.

    rounding/NAME: the change by ReLU inputs near zero, if there are any. float32/NAME: the norm of the change by
    PyTorch's own float32; for the losses, the change of each. has_near: whether such inputs are expected; otherwise the
    exact task is first done alone.
    """
    halved: Arrays = {}
    if not has_near:
        exact, num_near = compute_and_count(spec, data, weights, num_shards)
    if has_near or num_near:
        exact, halved, num_near = compute_halved(spec, data, weights, num_shards)
    single = compute(spec, data, weights, num_shards, dtype=torch.float32)
    changes = {name: single[name].astype(np.float64) - exact[name] for name in exact}
    arrays = exact | {f"{FLOAT32}/{name}": np.array(np.linalg.norm(change)) for name, change in changes.items()}
    arrays[f"{FLOAT32}/losses"] = changes["losses"]
    if not num_near:
        return arrays
    # A framework may pass a gradient that the exact task blocks, or block one that it passes: twice the difference.
    return arrays | {f"rounding/{name}": 2 * (halved[name] - exact[name]) for name in halved if name != "logits"}


def compute_and_count(spec: RunSpec, data: PreparedData, weights: dict, num_shards: int) -> tuple[Arrays, int]:
    """Return the arrays of the exact task, and how many ReLU inputs rounding could put on either side of zero."""
    measured, arrays = Measuring(), {}
    for after_step in advance(spec, data, weights, num_shards, measured):
        measured.seen.clear()
        arrays = after_step
    return arrays, measured.num_near


def compute_halved(spec: RunSpec, data: PreparedData, weights: dict, num_shards: int) -> tuple[Arrays, Arrays, int]:
    """Return the arrays of the exact task, those with half of the gradients of such inputs, and how many there are.

    The exact task runs one step ahead of the other.
    """
    measured = Measuring()
    exact = advance(spec, data, weights, num_shards, measured)
    halved = advance(spec, data, weights, num_shards, Halving(measured))
    arrays: tuple[Arrays, Arrays] = {}, {}
    for after_step in zip(exact, halved, strict=True):
        measured.seen.clear()
        arrays = after_step
    return *arrays, measured.num_near


def choose_images(arguments: argparse.Namespace, spec: RunSpec, weights: dict) -> tuple[int, PreparedData]:
    """Return the set of drawn images with the fewest ReLU inputs near zero, and first the number of these inputs.

    The images are as they are stored. The inputs are those of `spec`, on the largest number of devices.
    """
    shape, multi_label = tuple(arguments.image_shape), arguments.variation.multi_label
    counted: list[tuple[int, PreparedData]] = []
    for seed in range(NUM_CANDIDATES):
        candidate = draw_data(shape, arguments.num_classes, seed, multi_label)
        _, num_near = compute_and_count(spec, crop_data(candidate, shape[:2]), weights, max(arguments.devices))
        counted.append((num_near, candidate))
        if counted[-1][0] == 0:
            break
    return min(counted, key=itemgetter(0))


def read_arguments(description: str) -> argparse.Namespace:
    """Read the command line, which defines a network's task, for the reference and for the noise."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", required=True)
    parser.add_argument("--model-folder", default="", help="the user's folder that has the model")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: options that differ from the model's")
    parser.add_argument("--image-shape", type=int, nargs=3, required=True, help="height, width, channels")
    parser.add_argument("--num-classes", type=int, required=True)
    parser.add_argument("--batchnorm", choices=("local", "synchronized"), required=True)
    parser.add_argument("--variation", type=Variation.read, required=True, help="end of the name of the task's folder")
    parser.add_argument("--defaults", type=json.loads, required=True, help="JSON: defaults of the other settings")
    parser.add_argument("--folder", type=Path, required=True, help="of the task")
    parser.add_argument("--devices", type=int, nargs="+", required=True, help="numbers of devices to be compared with")
    parser.add_argument("--threads", type=int, default=1, help="cores for images of many pixels (default 1)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads if math.prod(arguments.image_shape) >= LARGE else 1)
    return arguments


def make_specs(arguments: argparse.Namespace) -> dict[str, RunSpec]:
    """Return the task's specification by optimizer."""
    framework = {"framework": "reference", "family": "torch", "strategy": "none", "launcher": "plain"}
    cell: dict[str, Any] = {"model": arguments.model, "model_options": arguments.options, "precision": "fp64"}
    cell |= {"batchnorm": arguments.batchnorm, "device": "cpu", "device_kind": "cpu", "cores_per_device": 1}
    cell |= {"crop": tuple(arguments.image_shape[:2]), "variation": str(arguments.variation)}
    size = {"num_gpus": 1, "num_nodes": 1}
    return {name: make_spec(framework, cell, size, name, arguments.folder, arguments.defaults) for name in OPTIMIZERS}


def is_same_on_all(spec: RunSpec, weights: dict) -> bool:
    """Whether the exact task is the same on any number of devices.

    It is the same without BatchNorm, and with statistics of the global batch unless batches are accumulated; but not if
    the learning rate is that of one device's batch, scaled.
    """
    optimizer = spec.optimizer
    if optimizer.lr_scaling != "none" and optimizer.lr_reference_batch_size is None:
        return False
    is_stateless = all(map(is_trainable, weights))
    return is_stateless or (spec.batchnorm == "synchronized" and spec.accumulate == 1)


def write_for_devices(
    arguments: argparse.Namespace, ending: str, compute_arrays: Callable[[RunSpec, int, str], Arrays]
) -> None:
    """Store the result of compute_arrays(spec, number of shards, stem of the file) by optimizer and number of devices.

    Arrays that it returns again are stored once, because those of large networks take gigabytes. Each computation is
    printed, for the log of the job.
    """
    specs, devices = make_specs(arguments), sorted(arguments.devices)
    started, steps = time.monotonic(), iter(range(1, len(specs) * len(devices) + 1))
    for optimizer, spec in specs.items():
        stored: tuple[Arrays, str] = {}, ""
        for num_devices in devices:
            stem = f"{optimizer}.devices{num_devices}"
            of_all = f"step {next(steps)} of {len(specs) * len(devices)}"
            where = f"{optimizer} on {num_devices} device{'s' if num_devices > 1 else ''}"
            print(f"{time.monotonic() - started:6.1f} s: {of_all}: {where}", flush=True)
            size = {"num_gpus": num_devices, **arguments.variation.share(num_devices)}
            sized = RunSpec.from_dict(spec.to_dict() | size)
            arrays = compute_arrays(sized, num_devices if spec.batchnorm == "local" else 1, stem)
            path = arguments.folder / f"{stem}{ending}"
            path.unlink(missing_ok=True)
            if arrays is stored[0]:
                path.symlink_to(stored[1])
            else:
                save_arrays(arrays, path)
                stored = arrays, path.name


def main() -> None:
    arguments = read_arguments(__doc__)
    shape, folder = tuple(arguments.image_shape), arguments.folder
    with replace_relu(GatedRelu.apply), RefuseTorchRelus(arguments.model):
        check_or_exit(arguments.model_folder, shape, arguments.num_classes, arguments.options)
        weights = draw_task_weights(arguments.model, shape, arguments.num_classes, **arguments.options)
        print("Choosing images with few ReLU inputs near zero", flush=True)
        num_near, stored = choose_images(arguments, make_specs(arguments)["sgd"], weights)
        write_task(folder, stored, weights)
        data = crop_data(stored, shape[:2])
        done: dict[str, Arrays] = {}

        def compute_one(spec: RunSpec, num_shards: int, stem: str) -> Arrays:
            name = stem.partition(".")[0]
            if name not in done or not is_same_on_all(spec, weights):
                done[name] = compute_with_rounding(spec, data, weights, num_shards, has_near=num_near > 0)
            return done[name]

        write_for_devices(arguments, ".safetensors", compute_one)
    facts = {"torch": torch.__version__, "global_batch_size": GLOBAL_BATCH_SIZE, "model": arguments.model}
    facts |= {"devices": sorted(arguments.devices)}
    facts |= {"model_options": arguments.options, "batchnorm": arguments.batchnorm}
    write_json_atomic(folder / "reference.json", facts)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
