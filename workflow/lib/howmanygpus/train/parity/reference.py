"""
Compute the reference result of the gate's task in float64.

The model runs on PyTorch's CPU kernels; everything else is written out here. If BatchNorm is local, each device's share
goes through the network by itself.

A ReLU either passes the gradient or blocks it. If its input is so near to zero that float32 rounding decides, both
results are correct. The task is therefore done once more with half of such gradients (relus.py). Twice the differences
are stored as the part of each tolerance that rounding can cause. What reduced precision may change is measured too: the
task is done once more with the rounding of each simulated (rounding.py). In fp16 the frameworks skip the update of one
step, and so does a branch of the task.
"""

import argparse
import json
import math
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from howmanygpus.files import write_json_atomic
from howmanygpus.train.frameworks.torch.layers.relu import replace_relu
from howmanygpus.train.input.batches import TrainingBatches
from howmanygpus.train.input.prepared import PreparedData, crop_data
from howmanygpus.train.parity.own.folder import check_or_exit
from howmanygpus.train.parity.rates import compute_rates
from howmanygpus.train.parity.relus import NEAR_ZERO, GatedRelu, RefuseOwnRelus
from howmanygpus.train.parity.rounding import FINE, Rounded
from howmanygpus.train.parity.shards import Reference
from howmanygpus.train.parity.task import (
    EVAL_EVERY_EPOCHS,
    GLOBAL_BATCH_SIZE,
    LARGE,
    NOISES,
    NUM_STEPS,
    OPTIMIZERS,
    SKIPPED,
    SKIPPED_STEP,
    draw_data,
    draw_task_weights,
    make_spec,
    read_loss,
    write_task,
)
from howmanygpus.train.spec import RunSpec

NUM_CANDIDATES = 4
"""Number of sets of random images; the task uses the set with the fewest ReLU inputs near zero."""
SHARDS = (1, 2, 3)
"""Numbers of devices of the layouts that the gate observes."""
ROUNDING_SEED = 1
STATISTICS = {"mean": "mean of all devices", "first": "first device"}
"""Whose running statistics evaluate; see Backend.running_statistics."""


class Progress:
    """What a reference has seen of the task so far."""

    def __init__(self, reference: Reference):
        self.reference, self.updates = reference, 0
        self.losses: list[float] = []
        self.evaluations: dict[str, list[np.ndarray]] = {key: [] for key in STATISTICS}

    def fork(self) -> "Progress":
        other = Progress(self.reference.fork())
        other.updates, other.losses = self.updates, [*self.losses]
        other.evaluations = {key: [*seen] for key, seen in self.evaluations.items()}
        return other

    def take_step(self, batch: tuple[np.ndarray, np.ndarray], rate: float, is_skipped: bool) -> dict[str, torch.Tensor]:
        """Take a step and return its gradients. A skipped one is no update, but sees its images."""
        loss, gradients = self.reference.compute_gradients(*batch, len(self.losses) + 1)
        self.losses.append(loss)
        if not is_skipped:
            self.updates += 1
            self.reference.update(gradients, self.reference.spec.optimizer, rate, self.updates)
        return gradients

    def evaluate(self) -> None:
        for key, statistics in STATISTICS.items():
            self.evaluations[key].append(self.reference.evaluate(statistics))

    def arrays(self) -> dict[str, np.ndarray]:
        arrays = {"losses": np.array(self.losses)}
        for key, statistics in STATISTICS.items():
            arrays |= {f"final_{key}/{name}": array for name, array in self.reference.read_weights(statistics).items()}
            arrays[f"evaluations_{key}"] = np.array(self.evaluations[key])
        return arrays


def compute(
    spec: RunSpec,
    data: PreparedData,
    weights: dict,
    num_shards: int,
    near: float = 0.0,
    arithmetic: AbstractContextManager | None = None,
    with_skip: bool = False,
) -> dict[str, np.ndarray]:
    """Return the arrays of the task on `num_shards` devices.

    near: the distance from zero, in standard deviations of a ReLU's inputs, within which its backward pass halves the
    gradient. arithmetic: a context in which the network computes. with_skip: add, behind SKIPPED, what is otherwise if
    the update of SKIPPED_STEP is skipped.
    """
    GatedRelu.near = near
    reference = Reference(spec, data, weights, num_shards, arithmetic or nullcontext())
    arrays = {"logits": reference.predict(data.test_images[np.arange(GLOBAL_BATCH_SIZE)], "first device")}
    branches = {"": Progress(reference)}
    batches = TrainingBatches(spec, data, rank=0, num_processes=1)
    rates = compute_rates(spec, batches.steps_per_epoch, NUM_STEPS)
    for step, (batch, rate) in enumerate(zip(batches, rates, strict=True), start=1):
        if with_skip and step == SKIPPED_STEP:
            branches[SKIPPED] = branches[""].fork()
        for name, branch in branches.items():
            gradients = branch.take_step(batch, rate, is_skipped=name == SKIPPED and step == SKIPPED_STEP)
            if step == 1:
                arrays |= {f"gradient/{name}": array for name, array in reference.read_gradients(gradients).items()}
            if step % (EVAL_EVERY_EPOCHS * batches.steps_per_epoch) == 0 or step == NUM_STEPS:
                branch.evaluate()
    for prefix, branch in branches.items():
        arrays |= {prefix + name: array for name, array in branch.arrays().items()}
    return arrays


def compute_all(spec: RunSpec, data: PreparedData, weights: dict, num_shards: int) -> dict[str, np.ndarray]:
    """Return the arrays of the exact task, and what float32 and reduced precision may change in each.

    rounding/NAME: the difference that ReLU inputs near zero may cause in float32. noise/NAME and
    fine_noise/NAME: the norms of the differences that the simulated rounding of bf16 and of fp16 causes.
    """
    exact = compute(spec, data, weights, num_shards, with_skip=True)
    halved = compute(spec, data, weights, num_shards, near=NEAR_ZERO)
    # A framework passes the whole of a gradient near zero or nothing, of which the exact task does the other.
    rounding = {f"rounding/{name}": 2 * (halved[name] - exact[name]) for name in halved if name != "logits"}
    arrays = exact | rounding
    for precision, noise in NOISES.items():
        rounded = compute(spec, data, weights, num_shards, arithmetic=Rounded(precision, ROUNDING_SEED))
        arrays |= {f"{noise}/{name}": np.linalg.norm(rounded[name] - exact[name]) for name in rounded}
    for name in rounded:
        fine = f"{NOISES['fp16']}/{name}"
        arrays[fine] = max(arrays[fine], FINE * arrays[f"{NOISES['bf16']}/{name}"])
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def count_near_gates(spec: RunSpec, data: PreparedData, weights: dict) -> int:
    """Count the ReLU inputs of the steps of sgd on most devices that rounding could put on either side of zero."""
    GatedRelu.counts_near = True
    compute(spec, data, weights, SHARDS[-1])
    GatedRelu.counts_near = False
    return GatedRelu.num_near


def write_reference(
    model: str,
    options: dict,
    batchnorm: str,
    shape: tuple[int, int, int],
    num_classes: int,
    folder: Path,
    accumulate: int = 1,
    multi_label: bool = False,
    label_smoothing: float = 0.0,
) -> None:
    """Choose the task's data; store the task, and the reference result of each optimizer on each number of devices."""
    weights = draw_task_weights(model, shape, num_classes, **options)
    framework = {"framework": "reference", "family": "torch", "strategy": "none", "launcher": "plain"}
    cell: dict[str, Any] = {"model": model, "model_options": options, "precision": "fp64", "device": "cpu"}
    cell |= {"batchnorm": batchnorm, "device_kind": "cpu", "loss_on_every_device": False, "cores_per_device": 1}
    cell |= {"crop": shape[:2], "label_smoothing": label_smoothing, "accumulate": accumulate}
    size = {"num_gpus": 1, "num_nodes": 1}
    specs = {name: make_spec(framework, cell, size, name, folder) for name in OPTIMIZERS}
    candidates = [draw_data(shape, num_classes, seed, multi_label) for seed in range(NUM_CANDIDATES)]

    def count_near(candidate: PreparedData) -> int:
        return count_near_gates(specs["sgd"], crop_data(candidate, shape[:2]), weights)

    stored = min(candidates, key=count_near)
    write_task(folder, stored, weights)
    data = crop_data(stored, shape[:2])
    for num_devices in SHARDS:
        num_shards = num_devices if batchnorm == "local" else 1
        for optimizer, spec in specs.items():
            sized = RunSpec.from_dict(spec.to_dict() | {"num_gpus": num_devices})
            arrays = compute_all(sized, data, weights, num_shards)
            save_file(arrays, folder / f"{optimizer}.devices{num_devices}.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--model-folder", default="", help="the user's folder that has the model")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: options that differ from the model's")
    parser.add_argument("--image-shape", type=int, nargs=3, required=True, help="height, width, channels")
    parser.add_argument("--num-classes", type=int, required=True)
    parser.add_argument("--batchnorm", choices=("local", "synchronized"), required=True)
    parser.add_argument("--loss", type=read_loss, default="", help="what follows it in the name of the task's folder")
    parser.add_argument("--accumulate", type=int, default=1, help="batches for one optimizer step (default 1)")
    parser.add_argument("--folder", type=Path, required=True, help="where task and reference are written")
    parser.add_argument("--threads", type=int, default=1, help="cores for images of many pixels (default 1)")
    arguments = parser.parse_args()
    shape = tuple(arguments.image_shape)
    torch.set_num_threads(arguments.threads if math.prod(shape) >= LARGE else 1)
    with replace_relu(GatedRelu.apply), RefuseOwnRelus(arguments.model):
        check_or_exit(arguments.model_folder, shape, arguments.num_classes, arguments.options)
        network, task = (arguments.model, arguments.options), (arguments.num_classes, arguments.folder)
        write_reference(*network, arguments.batchnorm, shape, *task, arguments.accumulate, **arguments.loss)
    facts = {"torch": torch.__version__, "global_batch_size": GLOBAL_BATCH_SIZE, "model": arguments.model}
    facts |= {"model_options": arguments.options, "batchnorm": arguments.batchnorm}
    write_json_atomic(arguments.folder / "reference.json", facts)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
