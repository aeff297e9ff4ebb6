"""
Converts weights that torchvision publishes to canonical names and layouts.

`published.py` of a model names its file, and maps the model's canonical names to torchvision's. It has `FILE`,
`NORMALIZATION` (what the images were normalised by, see measure.input.prepared) and `to_published_name(canonical
name)`, and may have `OLD_NAMES` (patterns and replacements for names in files that are older than torchvision's present
names), `DROPPED` (prefixes of the names of arrays that the model omits) and `reorder(canonical name, array)`.
"""

import importlib
import re
from types import ModuleType

import numpy as np

IMAGE_SHAPE, NUM_CLASSES = (224, 224, 3), 1000
"""Input and output of the published networks. Inception v3 takes 299x299 pixels, but no array depends on that."""
ROLES = {"kernel": "weight", "scale": "weight", "offset": "bias", "mean": "running_mean", "variance": "running_var"}
AXES = {4: (2, 3, 1, 0), 2: (1, 0)}
"""Map kernels (out, in, height, width) and (out, in) to (height, width, in, out) and (in, out)."""
COUNTER = ".num_batches_tracked"


class ConversionError(Exception):
    """Published arrays do not fit the model. The message names them."""


def read_published(model: str) -> ModuleType:
    return importlib.import_module(f"howmanygpus.measure.models.{model}.published")


def name_role(role: str) -> str:
    """Return the last part of PyTorch's name of an array. role: last part of its canonical name."""
    return ROLES.get(role, role)


def convert(model: str, published: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return canonical arrays and the names of the arrays that the model omits on purpose.

    published: arrays under torchvision's names. Raises ConversionError if one is missing or left over.
    """
    how = read_published(model)
    arrays = {_rename(name, how): array for name, array in published.items() if not name.endswith(COUNTER)}
    parameters = importlib.import_module(f"howmanygpus.measure.models.{model}.parameters").parameters
    names = {name: how.to_published_name(name) for name in parameters(IMAGE_SHAPE, NUM_CLASSES)}
    if missing := [name for name in names.values() if name not in arrays]:
        raise ConversionError(f"{model}: the file lacks {_list(missing)}")
    left = sorted(arrays.keys() - names.values())
    dropped = [name for name in left if name.startswith(getattr(how, "DROPPED", ()))]
    if unknown := [name for name in left if name not in dropped]:
        raise ConversionError(f"{model}: the file also has {_list(unknown)}")
    reorder = getattr(how, "reorder", lambda name, array: array)
    return {name: _transpose(name, reorder(name, arrays[source])) for name, source in names.items()}, dropped


def _rename(name: str, how: ModuleType) -> str:
    for pattern, replacement in getattr(how, "OLD_NAMES", ()):
        name = re.sub(pattern, replacement, name)
    return name


def _transpose(name: str, array: np.ndarray) -> np.ndarray:
    axes = AXES.get(array.ndim) if name.endswith(".kernel") else None
    return np.ascontiguousarray(array.transpose(axes) if axes else array, dtype=np.float32)


def _list(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
