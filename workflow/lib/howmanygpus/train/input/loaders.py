"""
The loaders of a run: the shared one, or one that a framework brings, as its users write it.

A framework's own is a module of its family with LOADER, a TrainingBatches that yields the same images in the same order
with the same changes, through the framework's own decoders, workers and queues. It covers all epochs of a run in one
pass, so that its workers never stop and start; what users pay between two epochs is not in it.
"""

import importlib

from howmanygpus.train.input.batches import TrainingBatches

SHARED = "shared"
"""The name of the loader that is no framework's own."""


def load_loader(name: str) -> type[TrainingBatches]:
    """The class that loads the batches of a run. name: `shared`, or a module below train/frameworks/."""
    return TrainingBatches if name == SHARED else importlib.import_module(f"howmanygpus.train.frameworks.{name}").LOADER
