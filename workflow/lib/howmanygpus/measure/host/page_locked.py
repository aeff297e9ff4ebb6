"""Page-locked (pinned) host memory, from which a GPU copies by itself, for frameworks that copy from any memory."""

import ctypes
import weakref
from collections import defaultdict
from collections.abc import Callable

import numpy as np

from howmanygpus.measure.host.libraries import find_loaded_library

PORTABLE = 1
"""cudaHostAllocPortable: the memory is page-locked for all devices."""


class PageLockedError(Exception):
    """CUDA gives no page-locked memory."""


def allocate_page_locked(num_bytes: int, device: int) -> np.ndarray:
    """Return uint8 memory of num_bytes that is never freed. device: device of this process, whose context is used.

    Raises PageLockedError if CUDA's runtime is not loaded or refuses.
    """
    path = find_loaded_library("libcudart.so")
    if path is None:
        raise PageLockedError("the CUDA runtime is not loaded")
    runtime, pointer = ctypes.CDLL(path), ctypes.c_void_p()
    # Without it, the runtime would create a context on the first device, of several hundred MiB for each process.
    status = runtime.cudaSetDevice(ctypes.c_int(device)) or runtime.cudaHostAlloc(
        ctypes.byref(pointer), ctypes.c_size_t(num_bytes), ctypes.c_uint(PORTABLE)
    )
    if status:
        raise PageLockedError(f"CUDA error {status} for {num_bytes} bytes")
    assert pointer.value is not None
    return np.ctypeslib.as_array((ctypes.c_uint8 * num_bytes).from_address(pointer.value))


class PageLockedMemory:
    """Copies arrays to page-locked memory, and reuses the memory once nothing refers to the copy."""

    def __init__(self, allocate: Callable[[int], np.ndarray]):
        self._allocate = allocate
        self._free: dict[int, list[np.ndarray]] = defaultdict(list)

    def copy(self, array: np.ndarray) -> np.ndarray:
        """Return a copy. Several threads may ask at once."""
        free = self._free[array.nbytes]
        try:
            memory = free.pop()
        except IndexError:
            memory = self._allocate(array.nbytes)
        copied = memory.view(array.dtype).reshape(array.shape)
        np.copyto(copied, array)
        weakref.finalize(copied, free.append, memory)
        return copied
