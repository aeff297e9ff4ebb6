"""How Chainer runs the training, read back from Chainer."""

import os

import chainer

from howmanygpus.measure.host.libraries import read_cudnn_version


def describe_settings(optimizer: chainer.Optimizer, is_cuda: bool) -> dict[str, str]:
    """Return `settings` of run.schema.yaml."""
    settings = {
        "execution": "define by run",
        "layout": "NCHW",
        "optimizer": f"chainer.optimizers.{type(optimizer).__name__}, one update per parameter",
    }
    on_cpu = {"allocator": "malloc", "threads": os.environ["OMP_NUM_THREADS"]}
    return settings | (describe_cuda() if is_cuda else on_cpu)


def describe_cuda() -> dict[str, str]:
    config = chainer.config
    return {
        "autotune": f"cuDNN autotune {'on' if config.autotune else 'off'}",
        "tf32": "off (NVIDIA_TF32_OVERRIDE)" if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0" else "on",
        "allocator": "CuPy's memory pool",
        "cudnn": f"{read_cudnn_version() or 'not loaded'}, use_cudnn {config.use_cudnn}",
    }
