"""Take forward passes and steps of PyTorch's networks on a fake CUDA device, which computes shapes and formats alone.

Prints what was seen, as JSON. In: JSON with the networks and their options by name.
"""

import ctypes
import itertools
import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.specs import make_data, make_spec
from howmanygpus.measure.frameworks.torch import family
from howmanygpus.measure.models.initialization import draw_weights
from howmanygpus.measure.models.networks import list_draws

SHAPE, NUM_CLASSES, BATCH_SIZE = (8, 8, 3), 10, 8
PRODUCTS = ("aten.convolution.default", "aten.mm.default", "aten.addmm.default")
"""All but those of attention, which has kernels of its own on a GPU."""


class Operators(TorchDispatchMode):
    """Notes the names of all operators, the formats of what products take, and the layout of what is convolved.

    The layout is that of the kernels and of the images of the first convolution: PyTorch for CPUs does not know the
    layout in which cuDNN returns the others.
    """

    def __init__(self):
        super().__init__()
        self.names, self.formats, self.layouts = [], set(), set()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = str(operator)
        if name in PRODUCTS:
            tensors = [each for each in args if isinstance(each, torch.Tensor)]
            self.formats |= {f"{each.device.type} {each.dtype}" for each in tensors}
        if name == "aten.convolution.default":
            convolved = args[1:2] if name in self.names else args[:2]
            self.layouts |= {detect_layout(each) for each in convolved if each.shape[1] > 1 and each.shape[2] > 1}
        self.names.append(name)
        return operator(*args, **(kwargs or {}))


def detect_layout(tensor: torch.Tensor) -> str:
    return "NHWC" if tensor.is_contiguous(memory_format=torch.channels_last) else "NCHW"


def replace_cuda() -> None:
    """Replace what asks CUDA itself; a fake tensor is on a device that does not exist.

    PyTorch for CPUs has nothing to switch between CUDA's devices with. It gets what it has for the CPU, which does
    nothing; in PyTorch for CUDA, FakeTensorMode does the same where no GPU is found.
    """
    library = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libc10.so"))
    guards = (ctypes.c_void_p * 2).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    guards[1] = guards[1] or guards[0]
    torch.cuda.set_device = lambda device: None
    torch.cuda.is_bf16_supported = lambda including_emulation=True: True
    # GradScaler turns itself off without a GPU.
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    family.Copier = lambda device: None
    family.Network.to = move


def move(network: nn.Module, device=None, memory_format=torch.preserve_format) -> nn.Module:
    """Do what nn.Module.to does, with new parameters; that method refuses to replace fake ones."""
    for module in network.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    form = memory_format if tensor.ndim == 4 else torch.preserve_format
                    moved = tensor.detach().to(device or tensor.device, memory_format=form)
                    tensors[name] = nn.Parameter(moved) if isinstance(tensor, nn.Parameter) else moved
    return network


class OneDevice(family.TorchBackend):
    """One device, as PytorchDdp has it in the tier `best`. Whether a step overflowed is not known without numbers."""

    rank, num_processes = 0, 1

    def __init__(self, spec, data, weights):
        self.set_up(spec, data, weights, 0)

    def max_over_ranks(self, value):
        return value

    def step_optimizer(self):
        if self.scaler.is_enabled():
            self.scaler._maybe_opt_step = lambda optimizer, state, *arguments, **options: optimizer.step()
        super().step_optimizer()


def trace(model: str, options: dict, precision: str, tier: str) -> dict:
    spec = make_spec(
        **{"model": model, "model_options": options, "precision": precision, "tier": tier, "device": "cuda"},
        **{"device_kind": "cuda", "global_batch_size": BATCH_SIZE, "optimizer": {"name": "adamw"}},
    )
    data = make_data(image_shape=SHAPE, num_classes=NUM_CLASSES)
    weights = draw_weights(list_draws(model, SHAPE, NUM_CLASSES, **options), seed=1)
    compiled = []
    family.Network.compile = lambda network, **given: compiled.append(given)
    with FakeTensorMode(allow_non_fake_inputs=True):
        backend = OneDevice(spec, data, weights)
        network = backend.network
        images = torch.zeros((BATCH_SIZE, *SHAPE), dtype=torch.uint8, device="cuda:0")
        labels = torch.zeros(BATCH_SIZE, dtype=torch.int64, device="cuda:0")
        with Operators() as called:
            loss = backend.scaler.scale(backend.compute_loss(images, labels))
            # PyTorch for CPUs cannot take the backward pass of a GPU.
            for parameter in network.parameters():
                parameter.grad = torch.empty_like(parameter)
            backend.step_optimizer()
            logits = network.eval()(images)
        moments = [value for state in backend.optimizer.state.values() for value in state.values() if value.ndim]
    kept = [*network.parameters(), *network.buffers(), *moments]
    return {
        "formats": sorted(called.formats),
        "layouts": sorted(called.layouts),
        "kept": sorted({f"{each.device.type} {each.dtype}" for each in kept if each.is_floating_point()}),
        "results": sorted({f"{each.device.type} {each.dtype}" for each in (loss, logits)}),
        "is_fused": any("_fused_" in name for name in called.names),
        "compiled": compiled,
    }


def main() -> None:
    replace_cuda()
    networks = json.loads(sys.argv[1])
    kinds = list(itertools.product(("fp32", "bf16", "fp16"), ("stock", "best")))
    seen = {
        f"{model}-{precision}-{tier}": trace(model, options, precision, tier)
        for model, options in networks.items()
        for precision, tier in kinds
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
