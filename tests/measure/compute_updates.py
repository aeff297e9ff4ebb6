"""
Compute in float64 what runs of small_cnn must have done to their weights, by the parity gate's reference.

Runs in PyTorch's environment: python compute_updates.py SPEC.json ..., with the final weights in SPEC.safetensors.
"""

import sys
from contextlib import nullcontext
from pathlib import Path

from safetensors.numpy import load_file, save_file

from howmanygpus.gate.rates import compute_rates
from howmanygpus.gate.reference import Reference
from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.prepared import open_data
from howmanygpus.measure.spec import RunSpec


def compute(spec: RunSpec, final: Path) -> None:
    data, weights = open_data(spec.data_dir), load_file(spec.weights_file)
    batches = TrainingBatches(spec, data, rank=0, num_processes=1)
    reference = Reference(spec, data, weights, 1, nullcontext())
    rates = compute_rates(spec, batches.steps_per_epoch, batches.num_steps)
    for step, ((images, labels), rate) in enumerate(zip(batches, rates, strict=True), start=1):
        _, gradients = reference.compute_gradients(images, labels, step)
        reference.update(gradients, spec.optimizer, rate, step)
    save_file(reference.read_weights("first device"), final)


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        compute(RunSpec.read(path), path.with_suffix(".safetensors"))


if __name__ == "__main__":
    main()
