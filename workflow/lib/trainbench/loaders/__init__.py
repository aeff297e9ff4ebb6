"""
The loaders that frameworks bring, as their users write them: one module each, found by its name.

A module defines LOADER, a TrainingBatches that yields the same images in the same order with the same changes, through
the framework's own decoders, workers and queues. It covers all epochs of a run in one pass, so that its workers never
stop and start; what users pay at the seam of two epochs is not in it.
"""

import importlib

from trainbench.batches import TrainingBatches

SHARED = "shared"
"""The name of the loader that is no framework's own."""


def load_loader(name: str) -> type[TrainingBatches]:
    """The class that loads the batches of a run."""
    return TrainingBatches if name == SHARED else importlib.import_module(f"{__name__}.{name}").LOADER
