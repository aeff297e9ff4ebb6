"""Check torch.py of users' folders, one after the other in one process, and write what each ended with as JSON."""

import json
import sys
from pathlib import Path

from howmanygpus.gate.own_folder import FolderError, check_folder
from howmanygpus.gate.relus import GatedRelu, RefuseTorchRelus
from howmanygpus.gate.task import draw_task_weights
from howmanygpus.measure.frameworks.torch.layers.relu import replace_relu
from howmanygpus.measure.models.own import add_folder

SHAPE, NUM_CLASSES, OPTIONS = (8, 8, 3), 5, {"width": 4}


def main() -> None:
    ended = {}
    for name, path in json.loads(Path(sys.argv[1]).read_text()).items():
        add_folder(path)
        weights = draw_task_weights(Path(path).name, SHAPE, NUM_CLASSES, **OPTIONS)
        with replace_relu(GatedRelu.apply), RefuseTorchRelus(Path(path).name):
            try:
                check_folder(path, SHAPE, NUM_CLASSES, OPTIONS, weights)
            except FolderError as error:
                ended[name] = str(error)
    Path(sys.argv[2]).write_text(json.dumps(ended))


if __name__ == "__main__":
    main()
