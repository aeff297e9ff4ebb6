"""
Compute in float64 what a run of small_cnn must have done to its weights, by the parity gate's reference.

Runs in PyTorch's environment: python compute_updates.py SPEC WEIGHTS FINAL, all of them paths.
"""

import json
import sys
from contextlib import nullcontext
from pathlib import Path

from safetensors.numpy import load_file, save_file

from howmanygpus.train.input.batches import TrainingBatches
from howmanygpus.train.input.prepared import open_data
from howmanygpus.train.parity.rates import compute_rates
from howmanygpus.train.parity.reference import Reference
from howmanygpus.train.spec import RunSpec


def main() -> None:
    spec_file, weights_file, final = sys.argv[1:]
    spec = RunSpec.from_dict(json.loads(Path(spec_file).read_text()))
    data = open_data(spec.data_dir)
    batches = TrainingBatches(spec, data, rank=0, num_processes=1)
    reference = Reference(spec, data, load_file(weights_file), 1, nullcontext())
    rates = compute_rates(spec, batches.steps_per_epoch, batches.num_steps)
    for step, ((images, labels), rate) in enumerate(zip(batches, rates, strict=True), start=1):
        _, gradients = reference.compute_gradients(images, labels)
        reference.update(gradients, spec.optimizer, rate, step)
    save_file(reference.read_weights("first device"), final)


if __name__ == "__main__":
    main()
