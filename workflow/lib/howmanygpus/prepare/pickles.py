"""Read the pickles in which CIFAR-10 is published, which could hold any code, without running any of it."""

import pickle
from pathlib import Path

import numpy as np


class _Dtype:
    """Stands where numpy.dtype was pickled."""

    def __init__(self, name, *_):
        self.name = name if isinstance(name, str) else bytes(name).decode("latin1")

    def __setstate__(self, state):
        pass


class _Array:
    """Stands where a numpy array was pickled; `values` is the array, of bytes only."""

    def __setstate__(self, state):
        _, shape, dtype, fortran_order, content = state
        if not isinstance(dtype, _Dtype) or dtype.name not in ("u1", "|u1"):
            raise pickle.UnpicklingError("an array is not of uint8")
        content = content.encode("latin1") if isinstance(content, str) else content
        self.values = np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran_order else "C")


def _reconstruct(*_):
    return _Array()


def _encode(text, encoding):
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"text is encoded as {encoding!r}")
    return text.encode("latin1")


ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return ALLOWED[module, name]


def read_pickle(path: Path) -> dict[str, object]:
    """The dictionary in a pickle of lists, texts and uint8 arrays; raises ValueError for anything else."""
    try:
        with open(path, "rb") as file:
            found = _Unpickler(file, encoding="bytes").load()
        named = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in found.items()}
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise ValueError(f"{path} is no pickle of plain arrays: {error}; fetch it again") from None
    return {key: value.values if isinstance(value, _Array) else value for key, value in named.items()}
