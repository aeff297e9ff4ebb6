"""How JAX runs the training, read back from JAX."""

import os

import jax

from howmanygpus.measure.host.libraries import read_cudnn_version
from howmanygpus.measure.spec import RunSpec


def describe_settings(spec: RunSpec, devices: list[jax.Device]) -> dict[str, str]:
    """Return `settings` of run.schema.yaml."""
    settings = {
        "execution": "jax.jit (XLA)",
        "layout": "NHWC in the model; XLA chooses that of the device",
        "optimizer": f"optax.{spec.optimizer.name}, in the compiled step",
        "exchange": describe_exchange(spec),
    }
    return settings | (describe_cpu(devices) if devices[0].platform == "cpu" else describe_cuda(devices[0]))


def describe_exchange(spec: RunSpec) -> str:
    if not spec.exchanges:
        return "none, each device updates its own parameters"
    return "jax.lax.pmean under shard_map" if spec.num_gpus > 1 else "none, one device"


def describe_cuda(device: jax.Device) -> dict[str, str]:
    precision, limit = jax.config.jax_default_matmul_precision, (device.memory_stats() or {}).get("bytes_limit")
    kind = os.environ.get("XLA_PYTHON_CLIENT_ALLOCATOR", "default")
    preallocates = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "true").lower() in ("true", "1")
    return {
        "autotune": "XLA's default, unless XLA_FLAGS says otherwise",
        "tf32": "off" if precision == "highest" else f"jax_default_matmul_precision {precision}",
        "allocator": f"{kind}, {'takes' if preallocates else 'grows to'} {limit / 2**30:.1f} GiB" if limit else kind,
        "cudnn": read_cudnn_version() or "not loaded",
    }


def describe_cpu(devices: list[jax.Device]) -> dict[str, str]:
    return {"allocator": "malloc", "threads": os.environ.get("PJRT_NPROC", str(len(os.sched_getaffinity(0))))}
