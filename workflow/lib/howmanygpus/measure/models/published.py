"""How the weights that torchvision publishes for a network become canonical ones, see measure/models/conversion.py."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

ROLES = {"kernel": "weight", "scale": "weight", "offset": "bias", "mean": "running_mean", "variance": "running_var"}


def name_role(role: str) -> str:
    """Return the last part of PyTorch's name of an array. role: last part of its canonical name."""
    return ROLES.get(role, role)


def _keep(name: str, array: np.ndarray) -> np.ndarray:
    return array


@dataclass(frozen=True)
class Published:
    """
    file: its name, which has the beginning of its SHA-256.
    normalization: what the images were normalised by, see measure.input.prepared.
    to_name: from the canonical name of an array to torchvision's.
    old_names: patterns and replacements for names in files that are older than torchvision's present names.
    dropped: prefixes of the names of arrays that the network omits.
    reorder: from the canonical name and PyTorch's form of an array to one whose values are in the network's order.
    """

    file: str
    normalization: str
    to_name: Callable[[str], str]
    old_names: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    reorder: Callable[[str, np.ndarray], np.ndarray] = _keep
