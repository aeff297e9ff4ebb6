"""A library of CUDA that finds no memory is an outcome like a framework that finds none; another error is a crash."""

import pytest

from howmanygpus.train.loop.backend import Backend


class Framework(Backend):
    out_of_memory_errors = (MemoryError,)
    out_of_memory_text = "device"


QUOTED = [
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "Check failed: e == CUDNN_STATUS_SUCCESS (2 vs. 0) : cuDNN: CUDNN_STATUS_ALLOC_FAILED",
    "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call",
    "NCCL error: unhandled cuda error, NCCL version 2.27.5\nLast error:\nCuda failure 2 'out of memory'",
    "NCCL error: unhandled cuda error, NCCL version 2.14.3\nLast error:\nCuda failure 'out of memory'",
    "cudaErrorMemoryAllocation: out of memory",
    "Failed copying input tensor from CPU:0 to GPU:0 in order to run _EagerConst: Dst tensor is not initialized.",
    "INTERNAL: failed to allocate: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
]


@pytest.mark.parametrize("message", QUOTED)
def test_a_failed_allocation_of_a_library_is_out_of_memory(message):
    assert Framework.is_out_of_memory(RuntimeError(message))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError("the device is full"), True),
        (MemoryError("the host is full"), False),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"), False),
        (RuntimeError("Cuda failure 700 'an illegal memory access was encountered'"), False),
        (RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"), False),
    ],
)
def test_other_errors_stay_what_they_are(error, expected):
    assert Framework.is_out_of_memory(error) == expected
