"""Initialise models in files, one after the other in one process, and print what each ended with as JSON."""

import importlib
import json
import sys
from pathlib import Path

from howmanygpus.measure.frameworks.initialize_own_model import check_finite
from howmanygpus.measure.models.own import OwnModelError

SHAPE, NUM_CLASSES = (8, 8, 3), 5


def main() -> None:
    family, cases = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    initialize = importlib.import_module(f"howmanygpus.measure.frameworks.{family}.own_model").initialize
    ended = {}
    for name, path in cases.items():
        try:
            weights, draws = initialize(path, SHAPE, NUM_CLASSES, 1, {}, ["bf16"] if name.startswith("bf16") else [])
            check_finite(path, weights)
            again, _ = initialize(path, SHAPE, NUM_CLASSES, 1, {})
            other, _ = initialize(path, SHAPE, NUM_CLASSES, 2, {})
            same = all((weights[key] == again[key]).all() for key in weights)
            differs = any((weights[key] != other[key]).any() for key in weights)
            ended[name] = {"arrays": sorted(weights), "draws": draws, "same": same, "differs": differs}
        except OwnModelError as error:
            ended[name] = str(error)
    Path(sys.argv[3]).write_text(json.dumps(ended))


if __name__ == "__main__":
    main()
