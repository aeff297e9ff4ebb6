"""Environment variables of this process that change how frameworks and their libraries run."""

import os
import re

PREFIXES = (
    *("ATEN", "CHAINER", "CUBLAS", "CUBLASLT", "CUDA", "CUDNN", "CUPY", "DNNL", "FI", "FLAX", "GLOO", "GOMP", "GRPC"),
    *("HOROVOD", "JAX", "KERAS", "KMP", "MALLOC", "MKL", "MXNET", "NCCL", "NVIDIA", "OFI_NCCL", "OMP", "OMPI_MCA"),
    *("ONEDNN", "OPENBLAS", "PJRT", "PYTORCH", "TF", "TORCH", "TORCHDYNAMO", "TORCHINDUCTOR", "TRITON", "UCX", "XLA"),
)
"""Beginnings of names.

NCCL and MPI may exchange through libfabric (FI, OFI_NCCL) or UCX, and TensorFlow's workers through gRPC.
"""
READ_BY_LIBRARIES = re.compile(f"({'|'.join(PREFIXES)})_[A-Za-z0-9_]+")
OF_ONE_PROCESS = re.compile(
    r"TF_CONFIG|TORCHINDUCTOR_CACHE_DIR|TRITON_CACHE_DIR"
    r"|(TORCHELASTIC|NVIDIA_VISIBLE|NVIDIA_DRIVER|NVIDIA_REQUIRE|CUDA_VERSION)\w*"
    r"|HOROVOD_(\w+_)?(RANK|SIZE|HOSTNAME|ADDR|PORT|TIMEOUT_SECONDS)"
    r"|OMPI_MCA_(ess|orte|pmix|prte|mpi_yield|rmaps|plm|ras|initial|hwloc|state|event|shmem|btl_openib_if|opal)\w*"
)
"""Left out: addresses and ranks, which launchers set for each process, and descriptions that containers set.

PyTorch sets the folders of compiled kernels itself, Triton's for each device.
"""


def list_variables() -> dict[str, str]:
    """Return the variables of this process that are read by frameworks and their libraries, sorted by name.

    Variables by which a launcher tells a process its place are left out.
    """
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if READ_BY_LIBRARIES.fullmatch(name) and not OF_ONE_PROCESS.fullmatch(name)
    }
