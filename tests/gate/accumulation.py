"""
Compares a framework with itself: steps on three batches of each device, and on one batch of three times the size.

The network has no BatchNorm, which would normalise each batch by itself.
"""

from pathlib import Path

import numpy as np

from howmanygpus.gate.judge import Observation, compare
from howmanygpus.measure.models.initialization import is_trainable

WHOLE, HALVES = "sigmoid", "sigmoid_accumulated"
"""The cells that do the same steps with one batch of each device and with three."""
LIMITS = {"first": 2e-4, "final": 5e-5}
"""Largest relative difference of an array's change, after the first step and after the last.

The change of one step is so small that the last bit of the weights shows in it. With adam, 4.8e-5 and 2.0e-5 were seen
in PyTorch, and 4.8e-5 and 2.1e-5 in MXNet: one or two of the 64 weights of `conv2.bias` differ in their last bit.
"""


def compare_steps(whole: Path, halves: Path, optimizer: str = "sgd") -> dict[str, float]:
    """Return the largest relative difference of an array's change, by the moments of LIMITS."""
    initial = Observation.read(whole, "sgd").weights("initial")
    one, two = Observation.read(whole, optimizer), Observation.read(halves, optimizer)
    assert [fact["hashes"] for fact in one.facts] == [fact["hashes"] for fact in two.facts], "other images or targets"
    differences = {}
    for moment in LIMITS:
        expected, found = (list_changes(seen.weights(moment), initial) for seen in (one, two))
        differences[moment] = max(compare(found[name], array) for name, array in expected.items())
    return differences


def list_changes(weights: dict[str, np.ndarray], initial: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array.astype(np.float64) - initial[name] for name, array in weights.items() if is_trainable(name)}


def find_excess(differences: dict[str, float]) -> list[str]:
    """Return the moments at which a difference exceeds its limit."""
    return [moment for moment, value in differences.items() if not value <= LIMITS[moment]]
