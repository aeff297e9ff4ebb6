"""Draw a model's initial weights, without any framework, and store them with their hash."""

import argparse
import importlib
import os
from pathlib import Path

from safetensors.numpy import save_file

from trainbench.data import sha256_of_file
from trainbench.initialization import draw_weights
from trainbench.records import write_json_atomic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="folder of trainbench/models/")
    parser.add_argument("--image-shape", type=int, nargs=3, required=True, metavar=("HEIGHT", "WIDTH", "CHANNELS"))
    parser.add_argument("--num-classes", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--weights", type=Path, required=True, help="safetensors file to write, with a .json beside it")
    arguments = parser.parse_args()
    parameters = importlib.import_module(f"trainbench.models.{arguments.model}.parameters").parameters
    weights = draw_weights(parameters(tuple(arguments.image_shape), arguments.num_classes), arguments.seed)
    partial = arguments.weights.with_name(f".{arguments.weights.name}.{os.getpid()}")
    save_file(weights, partial)
    os.replace(partial, arguments.weights)
    record = {"sha256": sha256_of_file(arguments.weights), "arrays": len(weights)}
    write_json_atomic(arguments.weights.with_suffix(".json"), record)


if __name__ == "__main__":
    main()
