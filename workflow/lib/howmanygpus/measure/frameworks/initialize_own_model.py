"""Check a user's own model in its framework's environment, and store the initial weights that all strategies share."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from howmanygpus.files import atomic_path, sha256_of_file, write_json_atomic
from howmanygpus.measure.models.initialization import is_trainable
from howmanygpus.measure.models.own import OwnModelError, import_own_models
from howmanygpus.measure.models.saving import save_arrays


def check_finite(path: str, weights: dict[str, np.ndarray]) -> None:
    """Raise OwnModelError if a parameter is not finite. Other arrays may be, as a mask of -inf is."""
    if wrong := [name for name, array in weights.items() if is_trainable(name) and not np.isfinite(array).all()]:
        raise OwnModelError(f"{path}: initial weights are not finite in {', '.join(wrong[:3])}; initialise them")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", required=True, help="torch, keras or flax")
    parser.add_argument("--model-file", required=True, help="the user's file, with a function build")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: options for build")
    parser.add_argument("--image-shape", type=int, nargs=3, required=True, metavar=("HEIGHT", "WIDTH", "CHANNELS"))
    parser.add_argument("--num-classes", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--precisions", nargs="*", default=[], help="mixed precisions in which it is trained on CPUs")
    parser.add_argument("--weights", type=Path, required=True, help="safetensors file to write, with a .json beside it")
    arguments = parser.parse_args()
    family = import_own_models(arguments.family)
    model = (arguments.model_file, tuple(arguments.image_shape), arguments.num_classes)
    try:
        weights, draws = family.initialize(*model, arguments.seed, arguments.options, arguments.precisions)
        check_finite(arguments.model_file, weights)
    except OwnModelError as error:
        # The traceback of the user's code says where; the last line says what to do.
        if error.__cause__ is not None:
            sys.excepthook(type(error.__cause__), error.__cause__, error.__cause__.__traceback__)
        sys.exit(str(error))
    with atomic_path(arguments.weights) as partial:
        save_arrays(weights, partial)
    record = {"sha256": sha256_of_file(arguments.weights), "arrays": len(weights), "draws_in_training": draws}
    write_json_atomic(arguments.weights.with_suffix(".json"), record)


if __name__ == "__main__":
    main()
