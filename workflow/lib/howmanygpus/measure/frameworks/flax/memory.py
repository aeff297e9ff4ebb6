"""How much of a GPU's memory JAX takes when it starts."""

import os

from howmanygpus.measure.host.gpus import read_smallest_memory_gib

FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
"""Names of the same variable; the second is deprecated. XLA refuses both at once."""
RESERVED_GIB = 2.0
"""Left for CUDA, cuDNN, cuBLAS and NCCL, which allocate outside JAX's pool. TensorFlow leaves up to 1.8 GiB."""


def preallocate_gpu_memory() -> None:
    """Have JAX take each GPU's memory except RESERVED_GIB, unless the user's shell sets a fraction.

    By default JAX takes 75 %, and the largest batch could not use the rest. Users who run out of memory raise the
    fraction. Must be called before JAX looks for devices.
    """
    total_gib = read_smallest_memory_gib()
    # A GPU that shares the host's memory keeps JAX's default, because the host's programs need the rest.
    if total_gib and not any(name in os.environ for name in FRACTIONS):
        os.environ[FRACTIONS[0]] = f"{max(0.75, 1 - RESERVED_GIB / total_gib):.3f}"
