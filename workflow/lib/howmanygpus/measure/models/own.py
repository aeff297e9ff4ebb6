"""
Imports models that users wrote, in one file or in a folder, and builds them.

Arrays of a model in one file are named by their place in it and a role: `matrix` is a parameter with several axes,
`vector` one with at most one axis, and `state` an array that training changes without a gradient, such as running
statistics.

The modules of a folder are howmanygpus.measure.models.{name}.network, or .parameters, .torch and so on, as if the
folder were in measure/models/. They import each other relatively, because a plain `import torch` must not find
torch.py.
"""

import importlib.util
import random
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

MATRIX, VECTOR, STATE = ".matrix", ".vector", ".state"
PLAIN = {"torch": "dp", "keras": "mirrored", "flax": "sharding"}
"""Strategy of each family that trains on one device in one process. The gate compares the others with it."""
LOADED = "howmanygpus_own_model"
"""Name under which the module is imported, so that a file may have the name of an installed package."""


class OwnModelError(Exception):
    """The user's file is wrong. The message names the file, what is wrong, and what to do."""


def name_role(is_trainable: bool, num_axes: int) -> str:
    if not is_trainable:
        return STATE
    return MATRIX if num_axes > 1 else VECTOR


def seed_generators(seed: int) -> None:
    """Seed Python's and numpy's generators, from which a user's file may draw besides its framework's."""
    random.seed(seed)
    np.random.seed(seed)


def read_generators() -> tuple:
    """Return the states of Python's and numpy's generators, which every draw changes."""
    _, words, *position = np.random.get_state()
    return random.getstate(), np.asarray(words).tobytes(), position


def import_file(path: str) -> ModuleType:
    """Import the file. Modules beside it can be imported too, unless an installed one has their name."""
    file = Path(path).resolve()
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    description = importlib.util.spec_from_file_location(LOADED, file)
    assert description is not None and description.loader is not None, f"{path} is no file of Python"
    module = importlib.util.module_from_spec(description)
    sys.modules[LOADED] = module
    try:
        description.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        problem = f"{path} cannot be imported: {describe(error)}"
        remedy = "correct it; it can import what its framework's environment has, listed in envs/, and files beside it"
        raise OwnModelError(f"{problem}; {remedy}") from error
    return module


def build_from_file(path: str, image_shape: tuple[int, int, int], num_classes: int, **options: Any) -> Any:
    """Call the file's function `build`, and return its result."""
    build = getattr(import_file(path), "build", None)
    if not callable(build):
        raise OwnModelError(f"{path} has no function build; define build(image_shape, num_classes, **options)")
    try:
        return build(tuple(image_shape), num_classes, **options)
    except (Exception, SystemExit) as error:
        call = f"build({tuple(image_shape)}, {num_classes}{''.join(f', {key}=...' for key in options)})"
        raise OwnModelError(f"{path}: {call} raised {describe(error)}; correct the function") from error


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def import_own_models(family: str) -> ModuleType:
    """Return a family's module for models in one file, imported by name so that changing it reruns only such models."""
    return importlib.import_module(f"howmanygpus.measure.frameworks.{family}.own_model")


PACKAGE = "howmanygpus.measure.models"
NETWORK, PARAMETERS = "network", "parameters"
"""Modules of a folder: the layout of the network, or its arrays beside a file for each family."""


def add_folder(path: str) -> str:
    """Make the modules of a folder importable, in place of an earlier folder; return the name of their package."""
    folder = Path(path).resolve()
    name = f"{PACKAGE}.{folder.name}"
    for module in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[module]
    # Files that have changed since this process last looked would not be found otherwise.
    importlib.invalidate_caches()
    start = folder / "__init__.py"
    if start.exists():
        found = importlib.util.spec_from_file_location(name, start, submodule_search_locations=[str(folder)])
        assert found is not None and found.loader is not None
    else:
        found = ModuleSpec(name, None, is_package=True)
        found.submodule_search_locations = [str(folder)]
    sys.modules[name] = package = importlib.util.module_from_spec(found)
    if found.loader is not None:
        found.loader.exec_module(package)
    return name
