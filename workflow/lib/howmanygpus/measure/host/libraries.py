"""Versions of the native libraries that a framework has loaded into this process, read from the libraries."""

import ctypes
from pathlib import Path

MAPS = Path("/proc/self/maps")


def find_loaded_library(name: str) -> str | None:
    """Return the path of a loaded shared library, such as `libcudnn.so`; None if the process has not loaded it."""
    for line in MAPS.read_text().splitlines():
        path = line.rpartition(" ")[2]
        if path.startswith("/") and Path(path).name.startswith(name):
            return path
    return None


def read_cudnn_version() -> str | None:
    """Return the version of the loaded cuDNN, such as "9.1.0"; None without one.

    cudnnGetVersion counts 10000 per major version from cuDNN 9 and 1000 before (cuDNN API, CUDNN_VERSION).
    """
    path = find_loaded_library("libcudnn.so")
    if path is None:
        return None
    get_version = ctypes.CDLL(path).cudnnGetVersion
    get_version.restype = ctypes.c_size_t
    number = int(get_version())
    major = 10000 if number >= 90000 else 1000
    return f"{number // major}.{number % major // 100}.{number % 100}"
