"""What the backends of the PyTorch family share: weights, optimizers, precision, images on the device."""

import importlib

import numpy as np
import torch

from trainbench.backend import UnsupportedError
from trainbench.data import PreparedData
from trainbench.spec import OptimizerSpec, RunSpec

BATCHNORM_NAMES = {"scale": "weight", "offset": "bias", "mean": "running_mean", "variance": "running_var"}
AXES_TO_TORCH = {4: (3, 2, 0, 1), 2: (1, 0)}
"""Canonical kernels are (height, width, in, out) and (in, out); PyTorch's are (out, in, height, width), (out, in)."""
AXES_FROM_TORCH = {4: (2, 3, 1, 0), 2: (1, 0)}


def torch_name(canonical_name: str) -> str:
    layer, _, role = canonical_name.rpartition(".")
    return f"{layer}.{'weight' if role == 'kernel' else BATCHNORM_NAMES.get(role, role)}"


def load_weights(module: torch.nn.Module, weights: dict[str, np.ndarray]) -> None:
    """Copy canonical weights in; raises RuntimeError naming every array that is missing, left over or misshapen."""
    state = {
        torch_name(name): torch.from_numpy(np.ascontiguousarray(array.transpose(AXES_TO_TORCH.get(array.ndim))))
        for name, array in weights.items()
    }
    counters = {key: value for key, value in module.state_dict().items() if key.endswith("num_batches_tracked")}
    module.load_state_dict({**state, **counters})


def read_weights(module: torch.nn.Module, names) -> dict[str, np.ndarray]:
    """The module's weights under canonical `names` and layouts."""
    state = module.state_dict()
    arrays = {name: state[torch_name(name)].detach().cpu().float().numpy() for name in names}
    return {
        name: np.ascontiguousarray(array.transpose(AXES_FROM_TORCH.get(array.ndim))) for name, array in arrays.items()
    }


def build_optimizer(parameters, spec: OptimizerSpec) -> torch.optim.Optimizer:
    """Weight decay is L2 regularisation: it is added to the gradient, of every parameter."""
    if spec.name == "sgd":
        return torch.optim.SGD(
            parameters, lr=spec.learning_rate, momentum=spec.momentum, weight_decay=spec.weight_decay
        )
    return torch.optim.Adam(
        parameters,
        lr=spec.learning_rate,
        betas=(spec.beta1, spec.beta2),
        eps=spec.epsilon,
        weight_decay=spec.weight_decay,
    )


def set_precision(spec: RunSpec, device: torch.device) -> None:
    """TF32 is on by default for convolutions and off for matrix products: set both, both ways."""
    if spec.precision == "tf32" and torch.cuda.get_device_capability(device) < (8, 0):
        raise UnsupportedError(f"tf32 needs compute capability 8.0 or later, not {torch.cuda.get_device_name(device)}")
    if spec.precision == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported(False):
        raise UnsupportedError(f"bf16 needs compute capability 8.0 or later, not {torch.cuda.get_device_name(device)}")
    torch.backends.cuda.matmul.allow_tf32 = spec.precision == "tf32"
    torch.backends.cudnn.allow_tf32 = spec.precision == "tf32"


class Network(torch.nn.Module):
    """A model behind the normalisation of its uint8 images, which happens on the device."""

    def __init__(self, spec: RunSpec, data: PreparedData):
        super().__init__()
        self.precision = spec.precision
        build = importlib.import_module(f"trainbench.models.{spec.model}.torch").build
        self.model = build(data.image_shape, data.num_classes)
        for name, values in (("mean", data.channel_mean), ("std", data.channel_std)):
            self.register_buffer(name, torch.tensor(values).reshape(1, -1, 1, 1), persistent=False)

    def forward(self, images):
        """images: uint8 (batch, height, width, channels). Returns float32 logits (batch, classes)."""
        x = images.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
        x = (x - self.mean) / self.std
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            return self.model(x).float()
