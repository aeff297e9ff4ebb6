"""How PyTorch runs the training, read back from PyTorch."""

import re

import torch
from torch import nn

from howmanygpus.measure.frameworks.torch.optimizers import RULES, detect_implementation
from howmanygpus.measure.host.libraries import read_cudnn_version
from howmanygpus.measure.spec import RunSpec

LIMITED = re.compile("(recompile|cache_size)[_ ]limit")
"""Part of torch.compile's reason for running a function eagerly after too many compilations, in any version."""
ONEDNN = re.compile(r"Intel\(R\) MKL-DNN v([0-9.]+)|oneDNN v([0-9.]+)")


def describe_settings(network: nn.Module, spec: RunSpec, device: torch.device) -> dict[str, str]:
    """Return `settings` of run.schema.yaml. network: the network without a wrapper."""
    settings = {
        "execution": describe_execution(network),
        "layout": detect_layout(network),
        "optimizer": f"torch.optim.{RULES[spec.optimizer.name].__name__}, {detect_implementation(spec, device)}",
    }
    return settings | (describe_cuda() if device.type == "cuda" else describe_cpu())


def describe_execution(network: nn.Module) -> str:
    """Say whether the network was compiled, and into CUDA graphs, as PyTorch counts it.

    PyTorch runs the parts eagerly that it cannot compile, and leaves CUDA graphs out where they are impossible.
    """
    if network._compiled_call_impl is None:
        return "eager"
    counters = torch._dynamo.utils.counters
    if not counters["stats"]["unique_graphs"]:
        return "eager: torch.compile has compiled nothing"
    execution = "torch.compile"
    # A compiler that is not PyTorch's own has no configuration.
    if (network._compiled_call_impl.get_compiler_config() or {}).get("triton.cudagraphs"):
        skipped = counters["inductor"]["cudagraph_skips"]
        execution += ", CUDA graphs" + (f" except in {skipped} parts" if skipped else "")
    if any(LIMITED.search(reason) for reason in counters["unimplemented"]):
        return f"{execution}, eager after its limit of recompilations"
    return f"{execution}, with graph breaks" if sum(counters["graph_break"].values()) else execution


def read_versions(is_cuda: bool) -> dict[str, str]:
    """Return the versions of PyTorch and, on a GPU, of its libraries. It may be built without NCCL."""
    versions = {"torch": torch.__version__}
    if is_cuda:
        versions |= {"cuda": torch.version.cuda, "cudnn": str(torch.backends.cudnn.version())}
    if is_cuda and hasattr(torch._C, "_nccl_version"):
        versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return versions


def detect_layout(network: nn.Module) -> str:
    """Return the memory layout of the convolutions' kernels. Kernels of 1x1 pixels have both layouts at once."""
    kernels = [each for each in network.parameters() if each.ndim == 4 and each.shape[1] > 1 and each.shape[2] > 1]
    last = [each.is_contiguous(memory_format=torch.channels_last) for each in kernels]
    return "channels_last (NHWC)" if last and all(last) else "contiguous (NCHW)"


def describe_cuda() -> dict[str, str]:
    backends, off_on = torch.backends, ("off", "on")
    return {
        "autotune": f"cudnn.benchmark {off_on[backends.cudnn.benchmark]}",
        "tf32": f"convolutions {off_on[backends.cudnn.allow_tf32]}, "
        f"matrix products {off_on[backends.cuda.matmul.allow_tf32]}",
        "allocator": f"PyTorch's, {torch.cuda.get_allocator_backend()}",
        "cudnn": read_cudnn_version() or "not loaded",
    }


def describe_cpu() -> dict[str, str]:
    found = ONEDNN.search(torch.__config__.show())
    version = next(filter(None, found.groups())) if found else "version unknown"
    return {
        "allocator": "malloc",
        "onednn": version if torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled else "off",
        "threads": str(torch.get_num_threads()),
    }
