"""How MXNet runs the training, read back from MXNet."""

import os

import mxnet as mx

from howmanygpus.measure.host.libraries import read_cudnn_version
from howmanygpus.measure.spec import RunSpec


def describe_settings(
    network: mx.gluon.HybridBlock, optimizer: mx.optimizer.Optimizer, spec: RunSpec
) -> dict[str, str]:
    """Return `settings` of run.schema.yaml."""
    flags = ", ".join(name for name, value in network._flags if value is True)
    together = f", {optimizer.aggregate_num} parameters at a time" if optimizer.aggregate_num > 1 else ""
    settings = {
        "execution": f"hybridized ({flags})" if network._active else "imperative",
        "layout": "NCHW",
        "optimizer": f"{name_rule(optimizer)}, fused{together}",
    }
    return settings | (describe_cuda() if spec.device_kind == "cuda" else describe_cpu(spec))


def name_rule(optimizer: mx.optimizer.Optimizer) -> str:
    """Name MXNet's optimizer, or the operator that a class of the family calls."""
    rule = type(optimizer)
    return f"mxnet.optimizer.{rule.__name__}" if rule.__module__.startswith("mxnet.") else rule.OPERATOR


def describe_cuda() -> dict[str, str]:
    levels = {"0": "off", "1": "limited workspace", "2": "fastest"}
    level = os.environ.get("MXNET_CUDNN_AUTOTUNE_DEFAULT", "1")
    return {
        "autotune": f"cuDNN autotune: {levels.get(level, level)}",
        "tf32": "off (NVIDIA_TF32_OVERRIDE)" if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0" else "on",
        "allocator": f"MXNet's pool, {os.environ.get('MXNET_GPU_MEM_POOL_TYPE', 'Naive')}",
        "cudnn": read_cudnn_version() or "not loaded",
    }


def describe_cpu(spec: RunSpec) -> dict[str, str]:
    return {
        "allocator": "malloc",
        "onednn": "on" if mx.runtime.Features().is_enabled("MKLDNN") else "off",
        "threads": f"{os.environ['OMP_NUM_THREADS']} of OpenMP, {os.environ['MXNET_CPU_WORKER_NTHREADS']} workers",
    }
