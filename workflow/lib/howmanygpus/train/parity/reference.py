"""
Compute the reference result of the gate's task in float64.

The model runs on PyTorch's CPU kernels; everything else is written out here. If BatchNorm is local, each device's share
goes through the network by itself.

A ReLU either passes the gradient or blocks it. If its input is so near to zero that float32 rounding decides, both
results are correct. The task is therefore done once more with half of such gradients (relus.py). Twice the differences
are stored as the part of each tolerance that rounding can cause. What bf16 may change is
measured too: the task is done once more with the rounding of bf16 simulated (rounding.py).
"""

import argparse
import importlib
import json
import math
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from howmanygpus.files import write_json_atomic
from howmanygpus.train.frameworks.torch.family import load_weights, to_canonical, torch_name
from howmanygpus.train.frameworks.torch.layers.context import LayerContext
from howmanygpus.train.frameworks.torch.layers.relu import replace_relu
from howmanygpus.train.frameworks.torch.running_statistics import set_inflation, variance_inflations
from howmanygpus.train.input.batches import TrainingBatches
from howmanygpus.train.input.prepared import PreparedData, crop_data
from howmanygpus.train.models.initialization import is_trainable
from howmanygpus.train.parity.cross_entropy import count_terms, softmax_cross_entropy
from howmanygpus.train.parity.keys import find_keys
from howmanygpus.train.parity.losses import PartOfLoss
from howmanygpus.train.parity.own.folder import check_or_exit
from howmanygpus.train.parity.rates import compute_rates
from howmanygpus.train.parity.relus import NEAR_ZERO, GatedRelu, RefuseOwnRelus
from howmanygpus.train.parity.rounding import RoundedToBf16
from howmanygpus.train.parity.task import (
    EVAL_EVERY_EPOCHS,
    GLOBAL_BATCH_SIZE,
    LARGE,
    NUM_STEPS,
    OPTIMIZERS,
    draw_data,
    draw_task_weights,
    make_spec,
    read_loss,
    write_task,
)
from howmanygpus.train.spec import OptimizerSpec, RunSpec

NUM_CANDIDATES = 4
"""Number of sets of random images; the task uses the set with the fewest ReLU inputs near zero."""
SHARDS = (1, 2, 3)
"""Numbers of devices of the layouts that the gate observes."""
BF16_SEED = 1
STATISTICS = {"mean": "mean of all devices", "first": "first device"}
"""Whose running statistics evaluate; see Backend.running_statistics."""


class Reference:
    """One network per shard. The networks share parameters and have running statistics of their own."""

    def __init__(
        self,
        spec: RunSpec,
        data: PreparedData,
        weights: dict[str, np.ndarray],
        num_shards: int,
        arithmetic: AbstractContextManager,
    ):
        self.arithmetic = arithmetic
        self.spec, self.data, self.names = spec, data, list(weights)
        build = importlib.import_module(f"howmanygpus.train.models.{spec.model}.torch").build
        arguments = (data.image_shape, data.num_classes, LayerContext("local", spec.seed))
        self.shards = [build(*arguments, **spec.model_options) for _ in range(num_shards)]
        shard_spec = RunSpec.from_dict(spec.to_dict() | {"num_gpus": num_shards})
        for shard in self.shards:
            set_inflation(shard, shard_spec, data.image_shape)
            load_weights(shard, weights)
            shard.double()
        # set_inflation() has passed zeros through a network whose weights were still random.
        GatedRelu.num_near = 0
        self.inflations = variance_inflations(self.shards[0])
        self.parameters = [name for name in self.names if is_trainable(name)]
        self.moments: dict[str, list[torch.Tensor]] = {}

    def _normalise(self, images: np.ndarray) -> torch.Tensor:
        mean, std = (torch.tensor(values)[:, None, None] for values in (self.data.channel_mean, self.data.channel_std))
        return (torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).double() - mean) / std

    def compute_gradients(
        self, images: np.ndarray, labels: np.ndarray, step: int
    ) -> tuple[float, dict[str, torch.Tensor]]:
        """Return the mean loss over the global batch, and its gradients by PyTorch's names.

        The mean is over the images, or over the known labels if an image has any number of them. step counts from 1.
        """
        losses: list[float] = []
        gradients: dict[str, torch.Tensor] = {}
        given = (self._normalise(images), torch.from_numpy(images), torch.from_numpy(labels))
        parts = zip(*map(self._split, given), strict=True)
        num_terms, smoothing = count_terms(labels), self.spec.label_smoothing
        for position, (x, pixels, y) in enumerate(parts):
            shard = self.shards[position % len(self.shards)].train()
            named = dict(shard.named_parameters())
            with self.arithmetic:
                keys = map(torch.from_numpy, find_keys(shard, pixels.numpy(), step))
                loss = PartOfLoss.apply(shard(x, *keys), y.numpy(), smoothing, num_terms)
                computed = torch.autograd.grad(loss, list(named.values()))
            for name, gradient in zip(named, computed, strict=True):
                gradients[name] = gradients.get(name, 0.0) + gradient
            losses.append(loss.item())
        return float(np.sum(losses)), gradients

    def _split(self, batch: torch.Tensor) -> list[torch.Tensor]:
        """Return what each shard takes at a time: the first of its accumulated batches for every shard, then the next.

        Every device has one block of the global batch, and takes its batches from that.
        """
        rows = batch.reshape(self.spec.num_gpus, self.spec.accumulate, -1, *batch.shape[1:])
        parts = [rows[:, position].flatten(0, 1) for position in range(self.spec.accumulate)]
        return [chunk for part in parts for chunk in part.chunk(len(self.shards))]

    @torch.no_grad()
    def update(self, gradients: dict[str, torch.Tensor], optimizer: OptimizerSpec, rate: float, step: int) -> None:
        """Take one step of sgd, adam or adamw as the documentation of the config defines them; step counts from 1."""
        of_shards = [dict(shard.named_parameters()) for shard in self.shards]
        kept = (".bias", ".scale", ".offset") if optimizer.weight_decay_on == "weights" else ()
        decays = {torch_name(name): 0.0 if name.endswith(kept) else optimizer.weight_decay for name in self.parameters}
        for name, gradient in gradients.items():
            start, decay = of_shards[0][name], decays[name]
            if optimizer.name == "adamw":
                start = start - rate * decay * start
            else:
                gradient = gradient + decay * start
            first, second = self.moments.setdefault(name, [torch.zeros_like(gradient), torch.zeros_like(gradient)])
            if optimizer.name == "sgd":
                first.mul_(optimizer.momentum).add_(gradient)
                change = first
            else:
                first.mul_(optimizer.beta1).add_((1 - optimizer.beta1) * gradient)
                second.mul_(optimizer.beta2).add_((1 - optimizer.beta2) * gradient**2)
                corrected = (second / (1 - optimizer.beta2**step)).sqrt() + optimizer.epsilon
                change = first / (1 - optimizer.beta1**step) / corrected
            updated = start - rate * change
            for parameters in of_shards:
                parameters[name].copy_(updated)

    def read_gradients(self, gradients: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
        return to_canonical(gradients, self.parameters, {})

    def read_weights(self, statistics: str) -> dict[str, np.ndarray]:
        """Return the weights. `statistics` says which ones evaluation uses; see Backend.running_statistics."""
        states = [shard.state_dict() for shard in self.shards]
        if statistics == "first device":
            states = states[:1]
        mean = {torch_name(name): sum(state[torch_name(name)] for state in states) / len(states) for name in self.names}
        return to_canonical(mean, self.names, self.inflations)

    @torch.no_grad()
    def predict(self, images: np.ndarray, statistics: str) -> np.ndarray:
        shard = self.shards[0]
        own = {name: tensor.clone() for name, tensor in shard.state_dict().items()}
        load_weights(shard, self.read_weights(statistics))
        x = self._normalise(images)
        with self.arithmetic:
            logits = shard.eval()(x)
        shard.load_state_dict(own)
        return logits.numpy()

    def evaluate(self, statistics: str) -> np.ndarray:
        """Return the cross-entropy of every test image, or its logits if it has any number of labels."""
        logits, labels = self.predict(self.data.test_images, statistics), self.data.test_labels
        return logits if self.data.multi_label else softmax_cross_entropy(logits, labels, smoothing=0.0)[0]


def compute(
    spec: RunSpec,
    data: PreparedData,
    weights: dict,
    num_shards: int,
    near: float = 0.0,
    arithmetic: AbstractContextManager | None = None,
) -> dict[str, np.ndarray]:
    """Return the arrays of the task on `num_shards` devices.

    near: the distance from zero, in standard deviations of a ReLU's inputs, within which its backward pass halves the
    gradient. arithmetic: a context in which the network computes.
    """
    GatedRelu.near = near
    reference = Reference(spec, data, weights, num_shards, arithmetic or nullcontext())
    arrays = {"logits": reference.predict(data.test_images[np.arange(GLOBAL_BATCH_SIZE)], "first device")}
    losses: list[float] = []
    evaluations: dict[str, list[np.ndarray]] = {"mean": [], "first": []}
    batches = TrainingBatches(spec, data, rank=0, num_processes=1)
    rates = compute_rates(spec, batches.steps_per_epoch, NUM_STEPS)
    for step, ((images, labels), rate) in enumerate(zip(batches, rates, strict=True), start=1):
        loss, gradients = reference.compute_gradients(images, labels, step)
        losses.append(loss)
        if step == 1:
            arrays |= {f"gradient/{name}": array for name, array in reference.read_gradients(gradients).items()}
        reference.update(gradients, spec.optimizer, rate, step)
        if step % (EVAL_EVERY_EPOCHS * batches.steps_per_epoch) == 0 or step == NUM_STEPS:
            for key, statistics in STATISTICS.items():
                evaluations[key].append(reference.evaluate(statistics))
    arrays["losses"] = np.array(losses)
    for key, statistics in STATISTICS.items():
        arrays |= {f"final_{key}/{name}": array for name, array in reference.read_weights(statistics).items()}
        arrays[f"evaluations_{key}"] = np.array(evaluations[key])
    return arrays


def compute_all(spec: RunSpec, data: PreparedData, weights: dict, num_shards: int) -> dict[str, np.ndarray]:
    """Return the arrays of the exact task, and what float32 and bf16 may change in each.

    rounding/NAME: the difference that ReLU inputs near zero may cause in float32. noise/NAME: the norm of the
    difference that the simulated rounding of bf16 causes.
    """
    exact = compute(spec, data, weights, num_shards)
    halved = compute(spec, data, weights, num_shards, near=NEAR_ZERO)
    rounded = compute(spec, data, weights, num_shards, arithmetic=RoundedToBf16(BF16_SEED))
    # A framework passes the whole of a gradient near zero or nothing, of which the exact task does the other.
    rounding = {f"rounding/{name}": 2 * (halved[name] - exact[name]) for name in exact if name != "logits"}
    noise = {f"noise/{name}": np.linalg.norm(rounded[name] - exact[name]) for name in exact}
    return {name: np.ascontiguousarray(array) for name, array in (exact | rounding | noise).items()}


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
