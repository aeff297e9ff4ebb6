"""
Measure in float64 the changes that reduced precision may cause in the gate's task, for a file beside its reference.

The task is done again with the rounding of bf16 and of fp16 simulated (rounding.py). In fp16 the frameworks skip the
update of one step. The task without that update is computed here too.
"""

import json
from collections.abc import Iterable

import numpy as np
from safetensors.numpy import load_file

from howmanygpus.files import write_json_atomic
from howmanygpus.gate.own_folder import check_or_exit
from howmanygpus.gate.reference import Arrays, compute, read_arguments, write_for_devices
from howmanygpus.gate.relus import GatedRelu
from howmanygpus.gate.rounding import SimulatedRounding
from howmanygpus.gate.task import NOISE, NOISES, SKIPPED_PREFIX, SKIPPED_STEP, WEIGHTS
from howmanygpus.measure.frameworks.torch.layers.relu import replace_relu
from howmanygpus.measure.input.prepared import PreparedData, open_data
from howmanygpus.measure.spec import RunSpec

SEEDS = range(1, 9)
"""Seeds of the simulations of a network for which one simulation is too few; other networks use only the first seed."""
SMALL_NETWORK_PARAMETERS = 100_000
"""A network with fewer parameters has arrays of so few elements that the norms of two draws may differ eightfold."""
SIMULATION_WORK = 100_000_000
"""Product of parameters and pixels below which several simulations take a minute or two.

Such networks have large arrays too, but small images: BatchNorm normalises few values in their last layers, where
rounding that moves one ReLU input to the other side of zero changes whole kernels. In resnet44 at 8x8 pixels, on two
devices, the limits from one simulation refuse the results of others (docs/design/parity-gate.md). Beyond, one
simulation may take minutes, and an array's noise is an average over more values.
"""


def choose_seeds(num_parameters: int, image_shape: tuple[int, ...]) -> range:
    """Return the seeds of the simulations. image_shape: height, width, channels."""
    is_little = num_parameters * image_shape[0] * image_shape[1] < SIMULATION_WORK
    return SEEDS if num_parameters < SMALL_NETWORK_PARAMETERS or is_little else SEEDS[:1]


def measure(
    spec: RunSpec, data: PreparedData, weights: dict, num_shards: int, exact: Arrays, seeds: Iterable[int]
) -> Arrays:
    """Return the changes that reduced precision may cause in each array of the exact task.

    noise/NAME and fine_noise/NAME: the norms of the differences that the simulated rounding of bf16 and of fp16 causes,
    as root mean squares over simulations. skipped/NAME: the array without the update of SKIPPED_STEP.
    """
    skipped = compute(spec, data, weights, num_shards, skipped_step=SKIPPED_STEP)
    arrays = {f"{SKIPPED_PREFIX}{name}": array for name, array in skipped.items()}
    for precision, noise in NOISES.items():
        simulated = [
            simulate(spec, data, weights, num_shards, exact, SimulatedRounding(precision, seed)) for seed in seeds
        ]
        for name in skipped:
            arrays[f"{noise}/{name}"] = np.sqrt(np.mean([norms[name] ** 2 for norms in simulated]))
    return arrays


def simulate(
    spec: RunSpec, data: PreparedData, weights: dict, num_shards: int, exact: Arrays, arithmetic: SimulatedRounding
) -> dict[str, float]:
    """Return the norm of the change of each array by one simulation of reduced precision."""
    rounded = compute(spec, data, weights, num_shards, arithmetic=arithmetic)
    return {name: float(np.linalg.norm(array - exact[name])) for name, array in rounded.items()}


def main() -> None:
    arguments = read_arguments(__doc__)
    shape, folder = tuple(arguments.image_shape), arguments.folder
    with replace_relu(GatedRelu.apply):
        check_or_exit(arguments.model_folder, shape, arguments.num_classes, arguments.options)
        data, weights = open_data(folder / "arrays", crop_size=shape[:2]), load_file(folder / WEIGHTS)
        seeds = choose_seeds(sum(map(np.size, weights.values())), shape)

        def measure_one(spec: RunSpec, num_shards: int, stem: str) -> Arrays:
            exact = load_file(folder / f"{stem}.safetensors")
            return measure(spec, data, weights, num_shards, exact, seeds)

        write_for_devices(arguments, NOISE, measure_one)
    facts = {"model": arguments.model, "simulated": list(NOISES)}
    write_json_atomic(folder / "noise.json", facts)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
