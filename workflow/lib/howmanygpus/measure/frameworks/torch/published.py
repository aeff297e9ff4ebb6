"""Converts a file of weights that torchvision published to canonical arrays, in PyTorch's environment."""

import argparse
import json
import sys
from pathlib import Path

import torch

from howmanygpus.files import atomic_path, sha256_of_file, write_json_atomic
from howmanygpus.measure.models.conversion import ConversionError, convert
from howmanygpus.measure.models.saving import save_arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="file of howmanygpus/measure/networks/")
    parser.add_argument("--published", type=Path, required=True, help="record of the published file")
    parser.add_argument("--weights", type=Path, required=True, help="safetensors file to write, with a .json beside it")
    arguments = parser.parse_args()
    source = json.loads(arguments.published.read_text())
    # With weights_only, a file holds tensors and nothing that is executed.
    tensors = torch.load(source["path"], map_location="cpu", weights_only=True)
    try:
        weights, dropped = convert(
            arguments.model, {name: tensor.detach().float().numpy() for name, tensor in tensors.items()}
        )
    except ConversionError as error:
        sys.exit(f"{source['path']}: {error}; the file is not the one that was published")
    with atomic_path(arguments.weights) as partial:
        save_arrays(weights, partial)
    record = {"sha256": sha256_of_file(arguments.weights), "arrays": len(weights), "source": source, "dropped": dropped}
    write_json_atomic(arguments.weights.with_suffix(".json"), record)


if __name__ == "__main__":
    main()
