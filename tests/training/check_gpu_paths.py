"""Take the paths of GPUs in a framework that has none, with stand-ins for CUDA. Prints what was seen, as JSON.

Each function imports its framework itself.
"""

import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pynvml

from nvml import FakeGpu, FakeNvml
from specs import make_spec


def install_nvml() -> None:
    fake = FakeNvml([FakeGpu("GPU-one", memory_gib=40.0)])
    for name in (name for name in vars(FakeNvml) if name.startswith("nvml")):
        setattr(pynvml, name, getattr(fake, name))


def pytorch() -> dict:
    import torch

    from howmanygpus.train.frameworks.torch.optimizers import build_optimizer

    def flags(tier: str) -> dict:
        group = build_optimizer([torch.nn.Parameter(torch.zeros(1))], make_spec(tier=tier)).param_groups[0]
        return {name: group[name] for name in ("fused", "foreach")}

    from howmanygpus.train.frameworks.torch.settings import describe_cuda

    torch.cuda.get_allocator_backend = lambda: "native"
    return {tier: flags(tier) for tier in ("stock", "best")} | {"settings": describe_cuda()}


def chainer() -> dict:
    from chainer.backends import cuda

    from howmanygpus.train.frameworks.chainer.multi_node import ChainerMn
    from howmanygpus.train.frameworks.chainer.settings import describe_cuda
    from howmanygpus.train.loop.backend import UnsupportedError

    backend, reason = object.__new__(ChainerMn), None
    try:
        backend.__init__(make_spec(device="cuda", device_kind="cuda"), None, {}, None)
    except UnsupportedError as error:
        reason = str(error)
    properties = SimpleNamespace(getDeviceProperties=lambda number: {"name": f"GPU {number}".encode()})
    cuda.cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=properties))
    backend.is_cuda, backend.device = True, SimpleNamespace(device=SimpleNamespace(id=3))
    seen = {"reason": reason, "tf32": os.environ.get("NVIDIA_TF32_OVERRIDE"), "settings": describe_cuda()}
    return seen | {"device_model": backend.device_model()}


def mxnet() -> dict:
    from howmanygpus.train.frameworks.gluon.contexts import MxnetGluon
    from howmanygpus.train.frameworks.gluon.settings import describe_cuda

    backend = object.__new__(MxnetGluon)
    backend.spec = make_spec(device="cuda", device_kind="cuda")
    return {"device_model": backend.device_model(), "settings": describe_cuda()}


def jax() -> dict:
    import jax

    from howmanygpus.train.frameworks.flax.settings import describe_cuda
    from howmanygpus.train.frameworks.flax.sharding import find_devices

    seen = {}

    def list_devices(backend: str) -> list:
        seen["fraction"] = os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION")
        return [backend]

    jax.local_devices = list_devices
    seen["devices"] = find_devices(make_spec(device="cuda", device_kind="cuda"))
    jax.config.update("jax_default_matmul_precision", "highest")
    return seen | {"settings": describe_cuda(SimpleNamespace(memory_stats=lambda: {"bytes_limit": 38 * 2**30}))}


def tensorflow() -> dict:
    return {**copy_by_tensorflow(), **set_up_tensorflow()}


def set_up_tensorflow() -> dict:
    """Return what Keras's fit is told in each tier, and whether MirroredStrategy's GPUs have memory that grows."""
    import tensorflow as tf

    from howmanygpus.train.frameworks.keras.fit_mirrored import KerasMirrored
    from howmanygpus.train.frameworks.keras.settings import describe_cuda
    from howmanygpus.train.frameworks.mirrored import find_devices

    told, growing = {}, []
    tf.config.list_physical_devices = lambda kind: ["GPU 0", "GPU 1"]
    tf.config.experimental.set_memory_growth = lambda gpu, grows: growing.append(gpu)
    devices = find_devices(make_spec(device="cuda", device_kind="cuda", num_gpus=2))
    for tier in ("stock", "best"):
        backend = object.__new__(KerasMirrored)
        backend.spec = make_spec(tier=tier)
        backend.compile = lambda optimizer, tier=tier, **options: told.update({tier: options})
        backend.prepare_training(None)
    tf.config.experimental.get_memory_growth = lambda gpu: False
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return {"fit": told, "devices": devices, "growing": growing, "settings": describe_cuda("GPU 0")}


def copy_by_tensorflow() -> dict:
    import tensorflow as tf

    from howmanygpus.train.frameworks import copying

    asked, refuses = [], False

    def allocate(num_bytes: int, device: int) -> np.ndarray:
        if refuses:
            raise copying.PageLockedError("CUDA error 2")
        asked.append([num_bytes, device])
        # TensorFlow uses numpy's memory as it is if it begins at a multiple of 64 bytes, as CUDA's does.
        memory = np.zeros(num_bytes + 64, np.uint8)
        start = -memory.ctypes.data % 64
        return memory[start : start + num_bytes]

    copying.allocate_page_locked = allocate
    tf.config.get_visible_devices = lambda kind: [SimpleNamespace(name="/physical_device:GPU:3")]
    copier, images = copying.Copier(is_cuda=True), np.arange(1000, dtype=np.int32).reshape(10, 100)
    first, second = copier.put(images), copier.put(images + 1)
    kept = bool((first.numpy() == images).all() and (second.numpy() == images + 1).all())
    before = len(asked)
    del first
    third = copier.put(images + 2)
    kept = kept and bool((second.numpy() == images + 1).all() and (third.numpy() == images + 2).all())
    refuses = True
    refused = copying.Copier(is_cuda=True)
    return {
        **{"asked": asked, "before": before, "kept": kept, "host_memory": copier.host_memory},
        **{"refused": refused.host_memory, "still": bool((refused.put(images).numpy() == images).all())},
    }


if __name__ == "__main__":
    install_nvml()
    print(json.dumps(globals()[sys.argv[1]]()))
