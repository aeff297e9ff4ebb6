"""Converts weights that torchvision publishes to canonical names and layouts, as a network's PUBLISHED says."""

import re

import numpy as np

from howmanygpus.measure.models.networks import import_network, list_draws
from howmanygpus.measure.models.published import Published

IMAGE_SHAPE, NUM_CLASSES = (224, 224, 3), 1000
"""Input and output of the published networks. Inception v3 takes 299x299 pixels, but no array depends on that."""
AXES = {4: (2, 3, 1, 0), 2: (1, 0)}
"""Map kernels (out, in, height, width) and (out, in) to (height, width, in, out) and (in, out)."""
COUNTER = ".num_batches_tracked"


class ConversionError(Exception):
    """Published arrays do not fit the model. The message names them."""


def convert(model: str, published: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return canonical arrays and the names of the arrays that the model omits on purpose.

    published: arrays under torchvision's names. Raises ConversionError if one is missing or left over.
    """
    how: Published = import_network(model).PUBLISHED
    arrays = {_rename(name, how): array for name, array in published.items() if not name.endswith(COUNTER)}
    names = {name: how.to_name(name) for name in list_draws(model, IMAGE_SHAPE, NUM_CLASSES)}
    if missing := [name for name in names.values() if name not in arrays]:
        raise ConversionError(f"{model}: the file lacks {_list(missing)}")
    left = sorted(arrays.keys() - names.values())
    dropped = [name for name in left if name.startswith(how.dropped)]
    if unknown := [name for name in left if name not in dropped]:
        raise ConversionError(f"{model}: the file also has {_list(unknown)}")
    return {name: _transpose(name, how.reorder(name, arrays[source])) for name, source in names.items()}, dropped


def _rename(name: str, how: Published) -> str:
    for pattern, replacement in how.old_names:
        name = re.sub(pattern, replacement, name)
    return name


def _transpose(name: str, array: np.ndarray) -> np.ndarray:
    axes = AXES.get(array.ndim) if name.endswith(".kernel") else None
    return np.ascontiguousarray(array.transpose(axes) if axes else array, dtype=np.float32)


def _list(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
