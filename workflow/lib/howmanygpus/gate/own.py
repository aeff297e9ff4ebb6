"""
Do the gate's task with a user's own model, in its framework, on one device and without any exchange.

All strategies of the family and all numbers of devices are compared with this. Devices with local BatchNorm are
compared with one device that takes their shares one after the other and adds the gradients. Their running statistics
are those of one training for each device's share, which gets the parameters of the whole training before each step.
The effect of float32 rounding is measured by a second computation from slightly changed weights, and that of reduced
precision, if any is asked for, by a third one in bf16. The noise of bf16 is also used for tf32 and fp16, although
theirs is less: how many ReLU inputs of a small model they move to the other side of zero is a matter of chance. Without
bf16, weights that are rounded as coarsely take its place.

A model that draws random numbers in training does the task several times, each with other numbers. Only what they
change little is stored: the norms of gradients and updates, and evaluations without running statistics of shares. How
random numbers are drawn differs between devices and between strategies, and code of the user may draw them, so that
equal ones cannot be had.
"""

import argparse
import dataclasses
import json
import math
import traceback
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from howmanygpus.files import write_json_atomic
from howmanygpus.gate import process
from howmanygpus.gate.allowances import norm_of_all
from howmanygpus.gate.task import (
    DRAWS,
    EVAL_EVERY_EPOCHS,
    GLOBAL_BATCH_SIZE,
    LARGE,
    NOISES,
    NORMS,
    NUM_STEPS,
    NUM_TRAIN,
    OPTIMIZERS,
    compute_rates,
    draw_data,
    make_spec,
    write_task,
)
from howmanygpus.gate.task_forms import Variation
from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.prepared import PreparedData, open_data
from howmanygpus.measure.loop.backend import Backend, UnsupportedError, load_backend
from howmanygpus.measure.loop.evaluation import Evaluation
from howmanygpus.measure.loop.loop import TrainingLoop
from howmanygpus.measure.loop.targets import read_targets
from howmanygpus.measure.models.initialization import is_trainable
from howmanygpus.measure.models.own import PLAIN, OwnModelError, describe
from howmanygpus.measure.models.saving import save_arrays
from howmanygpus.measure.spec import RunSpec

OFF = 2.0**-22
"""Relative change of the weights in the second computation: two units in the last place."""
COARSE = 2.0**-9
"""Relative change of the weights in place of bf16: the largest relative error of a rounding to it."""
NUM_DRAWS = 6
"""Number of computations of a model that draws random numbers in training."""
SEED_STRIDE = 1000
"""Difference of their seeds, to which devices add their number."""
EVALUATED_STEPS = range(EVAL_EVERY_EPOCHS * (NUM_TRAIN // GLOBAL_BATCH_SIZE), NUM_STEPS + 1, 2)
"""Steps after which the task evaluates."""
Arrays = dict[str, np.ndarray]
Known = dict[str, tuple[RunSpec, Arrays, Arrays]]


class RecordingLoop(process.ObservedLoop):
    """Appends the weights after each step to a list."""

    def __init__(self, trajectory: list[Arrays], *arguments: Any):
        super().__init__(*arguments)
        self._trajectory = trajectory

    def after_step(self) -> None:
        super().after_step()
        self._trajectory.append(self.backend.weights())


class FollowingLoop(TrainingLoop):
    """Trains on given batches, from the parameters that another training had before each step.

    states: after each step, the arrays that are not trained.
    """

    def __init__(self, batches: list, trajectory: list[Arrays], spec: RunSpec, data: PreparedData, backend: Backend):
        super().__init__(spec, data, backend, np.zeros(NUM_STEPS, np.float32), None)
        self._given, self._trajectory = batches, trajectory
        self.states: list[Arrays] = []

    def host_batches(self):
        return iter(self._given)

    def after_step(self) -> None:
        super().after_step()
        state = {name: array for name, array in self.backend.weights().items() if not is_trainable(name)}
        self.states.append(state)
        self.backend.load(self._trajectory[self.steps_done - 1] | state)


def compute(spec: RunSpec, optimizer: str, num_shares: int = 1, seed: int | None = None) -> Arrays:
    """Do the task on one device and return its result under the names of gate.reference.

    num_shares: number of devices that keep running statistics of their own shares. seed: see process.observe.
    """
    trajectory: list[Arrays] = []
    make_loop = process.ObservedLoop if num_shares == 1 else partial(RecordingLoop, trajectory)
    _, seen, facts = process.observe(spec, optimizer, make_loop, seed)
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
    # A training that diverged has no further steps to follow.
    if len(trajectory) == NUM_STEPS:
        arrays |= compute_states(spec, num_shares, trajectory)
    return arrays


def compute_states(spec: RunSpec, num_shares: int, trajectory: list[Arrays]) -> Arrays:
    """Return the running statistics of devices that each normalise by their own share, and evaluations with them.

    trajectory: the weights of the whole training after each step, which have the parameters that the devices share.
    """
    data = open_data(spec.data_dir, crop_size=spec.crop_size)
    batches = list(read_targets(TrainingBatches(spec, data, 0, 1), spec, data))
    size, parts = spec.global_batch_size // num_shares, spec.accumulate // num_shares
    share = dataclasses.replace(spec, global_batch_size=size, accumulate=parts, evaluate=False)
    states: list[list[Arrays]] = []
    no_rates = np.zeros(NUM_STEPS, np.float32)
    for position in range(num_shares):
        backend = load_backend(share)(share, data, load_file(spec.weights_file), no_rates)
        own = [tuple(np.split(array, num_shares)[position] for array in batch) for batch in batches]
        with FollowingLoop(own, trajectory, share, data, backend) as loop:
            backend.train(loop)
        states.append(loop.states)
    arrays: Arrays = {}
    for key, devices in {"mean": states, "first": states[:1]}.items():
        united = [
            {name: np.mean([each[name] for each in step], axis=0) for name in step[0]}
            for step in zip(*devices, strict=True)
        ]
        arrays |= {f"final_{key}/{name}": array for name, array in united[-1].items() if np.isfinite(array).all()}
        evaluation = Evaluation(share, data, backend)
        for step in EVALUATED_STEPS:
            backend.load(trajectory[step - 1] | united[step - 1])
            evaluation.evaluate(step)
        stored = evaluation.predictions.collect()
        evaluations = stored["score" if data.multi_label else "loss"]
        arrays[f"evaluations_{key}"] = evaluations[:, np.argsort(stored["sample"], kind="stable")]
    return arrays


def select_undrawn(arrays: Arrays, weights: Arrays) -> Arrays:
    """Return of a result what random numbers change little. weights: the initial ones."""
    names = [name for name in weights if is_trainable(name)]
    changes = {
        "gradient": {name: arrays[f"gradient/{name}"] for name in names},
        "updates": {name: arrays[f"final_mean/{name}"].astype(np.float64) - weights[name] for name in names},
    }
    kept = {name: array for name, array in arrays.items() if name == "logits" or name.startswith("evaluations_")}
    return kept | {f"{NORMS}/{key}": np.array(norm_of_all(change)) for key, change in changes.items()}


def compute_draws(first: Arrays, spec: RunSpec, optimizer: str) -> Arrays:
    """Return what random numbers change little of the first and of further results.

    The norms are those of all results. Other arrays are means, with their standard deviations under another prefix.
    """
    weights = load_file(spec.weights_file)
    seeds = range(spec.seed + SEED_STRIDE, spec.seed + SEED_STRIDE * NUM_DRAWS, SEED_STRIDE)
    results = [select_undrawn(first, weights)]
    results += [select_undrawn(compute(spec, optimizer, seed=seed), weights) for seed in seeds]
    arrays = {name: np.array([each[name] for each in results]) for name in results[0]}
    joined = {name: array if name.startswith(NORMS) else array.mean(axis=0) for name, array in arrays.items()}
    # A further result differs from the mean by its own deviation and by that of the mean.
    factor = math.sqrt((NUM_DRAWS + 1) / (NUM_DRAWS - 1))
    spreads = {name: factor * arrays[name].std(axis=0) for name in arrays if name.startswith("evaluations_")}
    return joined | {f"{DRAWS}/{name}": spread for name, spread in spreads.items()}


def compute_shifted(spec: RunSpec, optimizer: str, change: float, folder: Path) -> Arrays:
    """Do the task from weights of which each differs by `change`, relative to itself, with a random sign."""
    weights = load_file(spec.weights_file)
    generator, shifted = np.random.default_rng(3), folder / "shifted.safetensors"
    for name, array in weights.items():
        if is_trainable(name):
            factors = 1 + change * generator.choice([-1, 1], array.shape)
            weights[name] = np.asarray(array * factors, dtype=array.dtype)
    save_arrays(weights, shifted)
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


def write_expected(
    specs: dict[str, RunSpec],
    variation: Variation,
    num_devices: int,
    draws: bool,
    precisions: Collection[str],
    known: Known,
    folder: Path,
) -> None:
    """Store the result of each optimizer on a number of devices.

    precisions: those of the runs. known: by optimizer, the result on the next smaller number, for which specification,
    and what measure_differences has returned on one device.
    """
    for optimizer, spec in specs.items():
        weights = load_file(spec.weights_file)
        has_state = not all(map(is_trainable, weights))
        is_local = spec.batchnorm == "local" and has_state and num_devices > 1
        share = variation.share(num_devices)
        parts = share["accumulate"] * (num_devices if is_local else 1)
        sizes = {"accumulate": parts, "per_device_batch_size": GLOBAL_BATCH_SIZE // parts}
        # The learning rates are those of `num_devices` devices, however many parts the one device takes.
        reference = spec.optimizer.lr_reference_batch_size or share["per_device_batch_size"]
        rates = dataclasses.asdict(spec.optimizer) | {"lr_reference_batch_size": reference}
        sized = RunSpec.from_dict(spec.to_dict() | sizes | {"optimizer": rates})
        # On several devices, every part is normalised by the statistics of other images.
        is_mixed = spec.batchnorm == "synchronized" and has_state and spec.accumulate > 1 and num_devices > 1
        done, arrays, differences = known.get(optimizer, (spec, {}, {}))
        if sized != done or not arrays:
            arrays = compute(sized, optimizer, num_devices if is_local and not draws else 1)
            differences = differences or measure_differences(spec, optimizer, arrays, precisions, folder)
            arrays = compute_draws(arrays, sized, optimizer) if draws else arrays
            known[optimizer] = sized, arrays, differences
        if is_mixed:
            arrays = {name: array for name, array in arrays.items() if name == "logits"}
        elif is_local and draws:
            arrays = {name: array for name, array in arrays.items() if "evaluations" not in name}
        arrays = arrays | {name: array for name, array in differences.items() if name.partition("/")[2] in arrays}
        save_arrays(arrays or {"none": np.zeros(1)}, folder / f"{optimizer}.devices{num_devices}.safetensors")


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
    known: Known = {}
    specs = {name: make_spec(framework, cell, size, name, folder, arguments.defaults) for name in OPTIMIZERS}
    # The effect of rounding is measured on one device.
    for num_devices in sorted({1, *arguments.devices}):
        write_expected(specs, variation, num_devices, draws, arguments.precisions, known, folder)
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
