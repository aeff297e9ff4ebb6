"""Make a network's initial weights from given weights, and draw the last layer if it is for other classes."""

import argparse
import json
import sys
from pathlib import Path

from safetensors.numpy import load_file

from howmanygpus.files import atomic_path, sha256_of_file, write_json_atomic
from howmanygpus.measure.models.saving import save_arrays
from howmanygpus.prepare.weights import MisfitError, adapt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drawn", type=Path, required=True, help="record of the weights drawn for this network")
    parser.add_argument("--given", type=Path, required=True, help="safetensors file, or record of one beside it")
    parser.add_argument("--weights", type=Path, required=True, help="safetensors file to write, with a .json beside it")
    arguments = parser.parse_args()
    path = arguments.given.with_suffix(".safetensors")
    try:
        weights, new = adapt(load_file(arguments.drawn.with_suffix(".safetensors")), load_file(path))
    except MisfitError as error:
        sys.exit(f"{path}: the file {error}; it must have the arrays of {arguments.drawn.with_suffix('.safetensors')}")
    with atomic_path(arguments.weights) as partial:
        save_arrays(weights, partial)
    # The record of published weights has their source, and the names of arrays that the network lacks.
    known = {"source": {"path": str(path), "sha256": sha256_of_file(path)}}
    if arguments.given != path:
        known = json.loads(arguments.given.read_text())
    record = {"sha256": sha256_of_file(arguments.weights), "arrays": len(weights), "drawn": new}
    write_json_atomic(arguments.weights.with_suffix(".json"), known | record)


if __name__ == "__main__":
    main()
