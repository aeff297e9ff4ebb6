"""Batches that are late by a known time, in runs of the variant LATE."""

import time

from howmanygpus.measure.loop import loop

LATE, DELAY_S = "late", 0.3
"""The delay is many times as long as a step of a small network, which takes up to 0.05 s if the cores are shared."""

load_own_loader = loop.load_loader


def delay(batches):
    for batch in batches:
        time.sleep(DELAY_S)
        yield batch


def load_loader(name: str, is_frozen: bool = False):
    class Loader(load_own_loader(name, is_frozen)):
        def __iter__(self):
            batches = super().__iter__()
            return delay(batches) if self.spec.variant == LATE else batches

    return Loader


def plant() -> None:
    """Let every loop of this process load by such a loader."""
    loop.load_loader = load_loader
