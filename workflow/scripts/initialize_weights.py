"""Draw a model's initial weights, without any framework, and store them with their hash."""

import argparse
import json
import sys
from pathlib import Path

from howmanygpus.files import atomic_path, sha256_of_file, write_json_atomic
from howmanygpus.measure.models.initialization import draw_weights, list_wrong_arrays
from howmanygpus.measure.models.networks import list_draws
from howmanygpus.measure.models.own import add_folder
from howmanygpus.measure.models.saving import save_arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="file of howmanygpus/measure/networks/")
    parser.add_argument("--model-folder", default="", help="the user's folder that has the model")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: options that differ from the model's")
    parser.add_argument("--image-shape", type=int, nargs=3, required=True, metavar=("HEIGHT", "WIDTH", "CHANNELS"))
    parser.add_argument("--num-classes", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--weights", type=Path, required=True, help="safetensors file to write, with a .json beside it")
    arguments = parser.parse_args()
    if arguments.model_folder:
        add_folder(arguments.model_folder)
    draws = list_draws(arguments.model, tuple(arguments.image_shape), arguments.num_classes, **arguments.options)
    weights = draw_weights(draws, arguments.seed)
    if wrong := list_wrong_arrays(weights):
        where = arguments.model_folder or arguments.model
        sys.exit(f"{where}: {wrong}; return float32 arrays of finite numbers, as he_normal and constant do")
    with atomic_path(arguments.weights) as partial:
        save_arrays(weights, partial)
    record = {"sha256": sha256_of_file(arguments.weights), "arrays": len(weights)}
    write_json_atomic(arguments.weights.with_suffix(".json"), record)


if __name__ == "__main__":
    main()
