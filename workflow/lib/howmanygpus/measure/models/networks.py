"""
Finds a network by its name: one of the workflow in measure/networks/, or one in a user's folder.

The module of a network has `lay_out(num_classes, **options)`, which returns its Layout. A user's folder may instead
have a parameters.py with `parameters(image_shape, num_classes, **options)`, which returns the initial draws, and a file
with `build` for each family.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from howmanygpus.measure.models.initialization import Draw
from howmanygpus.measure.models.layout import Layout
from howmanygpus.measure.models.options import fill_options
from howmanygpus.measure.models.own import NETWORK, PACKAGE, PARAMETERS


def import_network(model: str) -> ModuleType:
    """Return the module with the network's OPTIONS, if it has any. A user's folder was made importable before."""
    folder = f"{PACKAGE}.{model}"
    if folder not in sys.modules:
        return importlib.import_module(f"howmanygpus.measure.networks.{model}")
    return importlib.import_module(f"{folder}.{NETWORK if _is_laid_out(folder) else PARAMETERS}")


def find_build(model: str, family: str) -> Callable | None:
    """Return `build` of a user's file for the family; None for a network that is built from its layout."""
    folder = f"{PACKAGE}.{model}"
    if folder not in sys.modules or _is_laid_out(folder):
        return None
    return importlib.import_module(f"{folder}.{family}").build


def _is_laid_out(folder: str) -> bool:
    return importlib.util.find_spec(f"{folder}.{NETWORK}") is not None


def lay_out(model: str, num_classes: int, **options: Any) -> Layout:
    """Return the layout of a network. options: those that differ from the network's own."""
    network = import_network(model)
    return network.lay_out(num_classes, **fill_options(getattr(network, "OPTIONS", {}), options))


def list_draws(model: str, image_shape: tuple[int, int, int], num_classes: int, **options: Any) -> dict[str, Draw]:
    """Return the initial draw of every array, by its canonical name. image_shape: (height, width, channels)."""
    network = import_network(model)
    if hasattr(network, "lay_out"):
        return lay_out(model, num_classes, **options).list_draws(image_shape)
    return network.parameters(image_shape, num_classes, **options)
