"""
The loaders of a run: the shared loader, or the loader of a framework, written as its users write one.

A framework's loader is a module of its family that defines LOADER, a subclass of TrainingBatches. It yields the same
images in the same order with the same changes, through the framework's own decoders, workers and queues. One pass
covers all epochs of a run, so that workers never stop and start; the cost of a restart between epochs is not included.
"""

import importlib

from howmanygpus.measure.input.batches import TrainingBatches
from howmanygpus.measure.input.frozen import FrozenBatches

SHARED = "shared"
"""Name of the shared loader."""


def load_loader(name: str, is_frozen: bool = False) -> type[TrainingBatches]:
    """Return the class that loads the batches. name: `shared`, or a module below measure/frameworks/.

    is_frozen: whether every epoch has the batches of the first one, which only the shared loader offers.
    """
    if name == SHARED:
        return FrozenBatches if is_frozen else TrainingBatches
    return importlib.import_module(f"howmanygpus.measure.frameworks.{name}").LOADER
