"""
Fetches the files of weights that torchvision publishes, and derives a network's initial weights from given ones.

Given weights are compared with the arrays of the network first.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from howmanygpus.files import sha256_of_file
from howmanygpus.measure.models.initialization import is_trainable
from howmanygpus.prepare.acquire.acquisition import AcquisitionError, Download
from howmanygpus.prepare.acquire.downloading import PAUSE_S, fetch
from howmanygpus.prepare.sources import shorten_list

ADDRESS = "https://download.pytorch.org/models"
TIMEOUT_S = 20.0
"""Time without a byte after which a connection counts as broken. Meanwhile the whole call waits."""
NAME = re.compile(r".+-(?P<sha256>[0-9a-f]{8,})\.pth")
"""The names of torchvision's files contain the beginning of their SHA-256, which torch.hub compares too."""


def find_file(name: str, place: str, downloads: Path, pause_s: float = PAUSE_S) -> Path:
    """Return the path of a published file after comparing its checksum.

    place: folder that has the file, or address below which it is. downloads: folder in which fetched files are kept,
    and in which a user may put the file. Raises AcquisitionError, which says what to do.
    """
    match = NAME.fullmatch(name)
    assert match, f"{name} has no checksum"
    is_address = place.startswith(("http://", "https://"))
    download = Download(f"{place.rstrip('/')}/{name}", f"sha256:{match['sha256']}")
    kept = downloads / download.folder / name
    try:
        if is_address or _is_right(kept, match["sha256"]):
            return fetch(download, kept.parent, pause_s, TIMEOUT_S)
        return _take(Path(place) / name, match["sha256"])
    except AcquisitionError as error:
        raise AcquisitionError(
            f"{error}. Fetch {ADDRESS}/{name} elsewhere and put it at {kept} (its SHA-256 begins with "
            f"{match['sha256']}), or name a folder that has it, or a mirror, as published_weights in the machine file"
        ) from None


def _take(path: Path, checksum: str) -> Path:
    if not path.is_file():
        raise AcquisitionError(f"{path}: the file is not there")
    if not _is_right(path, checksum):
        raise AcquisitionError(f"{path}: the SHA-256 is {sha256_of_file(path)}, and does not begin with {checksum}")
    return path


def _is_right(path: Path, checksum: str) -> bool:
    return path.is_file() and sha256_of_file(path).startswith(checksum)


def count_gradient_bytes(weights: dict[str, np.ndarray]) -> int:
    """Return the bytes of a network's gradients in float32, in which every framework keeps them. weights: canonical."""
    return 4 * sum(array.size for name, array in weights.items() if is_trainable(name))


HEAD = ("dense.kernel", "dense.bias")
"""The last layer of every network of the workflow, whose size is the number of classes."""

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
        raise MisfitError(f"lacks {shorten_list(missing)}")
    if unknown := [name for name in rest if name not in needed]:
        raise MisfitError(f"has {shorten_list(unknown)}, which the network lacks")
    if wrong := [name for name in rest if rest[name] != needed[name]]:
        shapes = [f"{name} of {_write(rest[name])}, not {_write(needed[name])}" for name in wrong]
        raise MisfitError(f"has {shorten_list(shapes)}")
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
        raise MisfitError(f"has {shorten_list(wrong)} as {taken[first].dtype}, not {drawn[first].dtype}")
    if wrong := [name for name, array in taken.items() if not np.isfinite(array).all()]:
        raise MisfitError(f"has values that are not finite in {shorten_list(wrong)}")
    return {name: taken.get(name, array) for name, array in drawn.items()}, new


def _write(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a single number"
