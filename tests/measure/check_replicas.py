"""Compute outputs of replicas as nn.DataParallel makes them, in the `best` tier. Called by a test, in PyTorch."""

import argparse
import json

import numpy as np
import torch
from safetensors.numpy import load_file

from howmanygpus.measure.frameworks.torch.dp import PytorchDp
from howmanygpus.measure.frameworks.torch.family import Network, apply_tier, load_weights
from howmanygpus.measure.input.prepared import open_data
from howmanygpus.measure.spec import RunSpec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True)
    parser.add_argument("--compiles", type=json.loads, nargs="+", help="true compiles, null does as the backend")
    arguments = parser.parse_args()
    spec = RunSpec.read(arguments.spec)
    data = open_data(spec.data_dir)
    # Compiling would not change what is computed, so what is called in its place is enough.
    torch.compile = lambda function, **options: function
    images = torch.from_numpy(np.ascontiguousarray(data.test_images[:4]))
    for asked in arguments.compiles:
        network = Network(spec, data)
        load_weights(network.model, load_file(spec.weights_file))
        mode = PytorchDp.compile_mode if asked is None else "default"
        network = apply_tier(network, spec, mode).eval()
        replica = network._replicate_for_data_parallel()
        replica.model = torch.nn.Flatten()
        with torch.no_grad():
            print(json.dumps({"network": list(network(images).shape), "replica": list(replica(images).shape)}))


if __name__ == "__main__":
    main()
