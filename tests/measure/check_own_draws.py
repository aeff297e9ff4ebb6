"""Print for each strategy whether two replicas of a user's Keras model draw the same masks. Called by a test."""

import argparse
import importlib
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from howmanygpus.measure.frameworks.keras.own_model import initialize
from howmanygpus.measure.frameworks.keras.replicas import set_up_devices
from howmanygpus.measure.input.prepared import open_data
from howmanygpus.measure.spec import RunSpec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True)
    parser.add_argument("--models", type=Path, nargs="+")
    parser.add_argument("--strategies", nargs="+")
    arguments = parser.parse_args()
    spec = RunSpec.read(arguments.spec)
    # Before TensorFlow computes anything, which fixes its devices.
    set_up_devices(spec)
    data, folder = open_data(spec.data_dir), Path(arguments.spec).parent
    for model in arguments.models:
        drawn, draws = initialize(str(model), data.image_shape, data.num_classes, spec.seed, {})
        assert draws
        save_file(drawn, folder / "own.safetensors")
        weights = load_file(folder / "own.safetensors")
        for strategy in arguments.strategies:
            own = RunSpec.from_dict(spec.to_dict() | {"model_file": str(model), "strategy": strategy})
            backend = importlib.import_module(f"howmanygpus.measure.frameworks.keras.{strategy}").BACKEND(
                own, data, weights, np.zeros(4, np.float32)
            )
            batch = backend.put_for_prediction(np.full((4, *data.image_shape), 255, np.uint8))
            outputs = backend.strategy.run(
                lambda images, backend=backend: backend.model(images, training=True), (batch,)
            )
            first, second = (each.numpy() for each in backend.strategy.experimental_local_results(outputs))
            print(json.dumps({"model": model.stem, "strategy": strategy, "same": bool(np.allclose(first, second))}))


if __name__ == "__main__":
    main()
