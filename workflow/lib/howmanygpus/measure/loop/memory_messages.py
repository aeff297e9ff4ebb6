"""How CUDA, its libraries and the frameworks say that the memory of a device is exhausted."""

import re

FAILED_ALLOCATION = re.compile(
    r"CU(BLAS|DNN|SOLVER|SPARSE|RAND)_STATUS_ALLOC(ATION)?_FAILED|CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"
    r"|CUFFT_ALLOC_FAILED|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|CUDA out of memory"
    r"|(?:CUDA(?: runtime| driver)? error|Triton Error \[CUDA\]): out of memory|Cuda failure (?:\d+ )?'out of memory'"
    r"|Failed to CUDA [cm]alloc|Out of memory (?:while )?trying to allocate|Dst tensor is not initialized"
)
"""Messages of CUDA, its libraries and NCCL that frameworks quote if the device has no memory left.

cuBLAS, cuDNN and NCCL allocate their workspaces and buffers themselves. If that fails, frameworks raise errors of other
classes than if one of their own allocations fails, and so do compilers that try kernels. TensorFlow has the last
message if a copy from the host has no room.
"""
FRAMEWORK_MESSAGES = re.compile(
    r"torch\.(cuda\.)?OutOfMemoryError|RESOURCE_EXHAUSTED|ResourceExhaustedError"
    r"|cudaMalloc retry failed: out of memory|OutOfMemoryError: Out of memory allocating"
)
"""Messages of PyTorch, XLA, TensorFlow, MXNet and CuPy, in the output of a program whose exceptions cannot be seen."""


def names_exhausted_memory(line: str) -> bool:
    """Whether a line of output says that the memory of a device is exhausted."""
    return bool(FAILED_ALLOCATION.search(line) or FRAMEWORK_MESSAGES.search(line))
