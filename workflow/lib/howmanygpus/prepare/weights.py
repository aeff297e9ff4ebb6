"""Compares given weights with the arrays of a network, and derives its initial weights from them."""

from collections.abc import Mapping

import numpy as np

HEAD = ("dense.kernel", "dense.bias")
"""The last layer of every network of the workflow, whose size is the number of classes."""
LISTED = 3
"""Arrays that a message names."""

Shapes = Mapping[str, tuple[int, ...]]


class MisfitError(Exception):
    """Given weights are not those of the network. The message says which arrays, without the file's name."""


def list_new_arrays(needed: Shapes, given: Shapes) -> list[str]:
    """Return the arrays that are drawn anew: the last layer if `given` lacks it or has other classes, otherwise none.

    Raises MisfitError for any other difference.
    """
    head = [name for name in HEAD if name in needed]
    lacking = [name for name in head if name not in given]
    other = [name for name in head if name in given and given[name] != needed[name]]
    new = head if head and (lacking == head or (other and not lacking)) else []
    rest = {name: shape for name, shape in given.items() if name not in new}
    if missing := [name for name in needed if name not in rest and name not in new]:
        raise MisfitError(f"lacks {_list(missing)}")
    if unknown := [name for name in rest if name not in needed]:
        raise MisfitError(f"has {_list(unknown)}, which the network lacks")
    if wrong := [name for name in rest if rest[name] != needed[name]]:
        shapes = [f"{name} of {_write(rest[name])}, not {_write(needed[name])}" for name in wrong]
        raise MisfitError(f"has {_list(shapes)}")
    return new


def adapt(drawn: dict[str, np.ndarray], given: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return initial weights and the names of those that are drawn. drawn: all weights, as drawn for this network.

    Raises MisfitError.
    """
    new = list_new_arrays(
        {name: array.shape for name, array in drawn.items()}, {name: a.shape for name, a in given.items()}
    )
    taken = {name: given[name] for name in drawn if name not in new}
    if wrong := [name for name, array in taken.items() if array.dtype != drawn[name].dtype]:
        first = wrong[0]
        raise MisfitError(f"has {_list(wrong)} as {taken[first].dtype}, not {drawn[first].dtype}")
    if wrong := [name for name, array in taken.items() if not np.isfinite(array).all()]:
        raise MisfitError(f"has values that are not finite in {_list(wrong)}")
    return {name: taken.get(name, array) for name, array in drawn.items()}, new


def _list(names: list[str]) -> str:
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")


def _write(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a single number"
