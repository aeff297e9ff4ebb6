"""Saves arrays: weights, and what the parity gate observes and expects."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file


def save_arrays(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Write arrays of any shape and order in memory, by their names, to a safetensors file.

    safetensors 0.8.0 writes an array as it lies in memory, so that a transposed one would come back with its values in
    other places; findings/weights_are_saved_in_memory_order.sh shows it.
    """
    save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, path)
