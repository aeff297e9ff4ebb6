"""Code that the backends of the PyTorch family share: network, weights, optimizers, precision, a step."""

import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import torch
from torch import nn

from howmanygpus.measure.frameworks.number_formats import NumberFormats
from howmanygpus.measure.frameworks.torch.batch import Batch, Copier
from howmanygpus.measure.frameworks.torch.gradient_noise import measure_norms
from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.loss_scaling import LossScaler
from howmanygpus.measure.frameworks.torch.losses import build_loss
from howmanygpus.measure.frameworks.torch.optimizers import build_optimizer
from howmanygpus.measure.frameworks.torch.running_statistics import (
    running_statistics,
    set_inflation,
    variance_inflations,
)
from howmanygpus.measure.frameworks.torch.settings import describe_settings, read_versions
from howmanygpus.measure.frameworks.torch.walker import build
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import StepwiseBackend, UnsupportedError
from howmanygpus.measure.loss_scaling import LossScale
from howmanygpus.measure.models.initialization import is_decayed, is_trainable
from howmanygpus.measure.models.own import import_own_models
from howmanygpus.measure.spec import RunSpec

BATCHNORM_NAMES = {"scale": "weight", "offset": "bias", "mean": "running_mean", "variance": "running_var"}
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Mixed precisions. float16 works on every device."""
AXES_TO_TORCH = {4: (3, 2, 0, 1), 3: (0, 1, 2), 2: (1, 0)}
"""Canonical kernels are (height, width, in, out) and (in, out); PyTorch's are (out, in, height, width), (out, in).

Tokens are (1, tokens, width) in both."""
AXES_FROM_TORCH = {4: (2, 3, 1, 0), 3: (0, 1, 2), 2: (1, 0)}


def torch_name(canonical_name: str) -> str:
    layer, _, role = canonical_name.rpartition(".")
    return f"{layer}.{'weight' if role == 'kernel' else BATCHNORM_NAMES.get(role, role)}"


def load_weights(module: nn.Module, weights: dict[str, np.ndarray]) -> None:
    """Copy canonical weights in. Raises RuntimeError naming every array that is missing, left over or misshapen."""
    inflations = variance_inflations(module)
    state = {
        torch_name(name): torch.from_numpy(np.ascontiguousarray(array.transpose(AXES_TO_TORCH.get(array.ndim))))
        * inflations.get(name, 1.0)
        for name, array in weights.items()
    }
    counters = {key: value for key, value in module.state_dict().items() if key.endswith("num_batches_tracked")}
    module.load_state_dict({**state, **counters})


def read_weights(module: nn.Module, names) -> dict[str, np.ndarray]:
    """Return the module's weights under canonical `names` and layouts."""
    return to_canonical(module.state_dict(), names, variance_inflations(module))


def to_canonical(tensors: dict[str, torch.Tensor], names, inflations: dict[str, float]) -> dict[str, np.ndarray]:
    """Return tensors with PyTorch's names, such as weights or gradients, under canonical names and layouts."""
    arrays = {
        name: (tensors[torch_name(name)].detach().cpu().float() / inflations.get(name, 1.0)).numpy() for name in names
    }
    return {
        name: np.ascontiguousarray(array.transpose(AXES_FROM_TORCH.get(array.ndim))) for name, array in arrays.items()
    }


def apply_tier(network: nn.Module, spec: RunSpec, compile_mode: str | None) -> nn.Module:
    """Apply the `best` tier: NHWC in memory and, on GPUs, autotuned and compiled kernels. compile_mode: their mode.

    Settings of the whole process are set in both tiers, because the parity gate does tasks of both in one process.
    """
    is_best, is_cuda = spec.tier == "best", spec.device_kind == "cuda"
    torch.backends.cudnn.benchmark = is_best and is_cuda
    if not is_best:
        return network
    network = network.to(memory_format=torch.channels_last)
    if is_cuda and compile_mode:
        require_headers()
        compile_network(network, compile_mode, may_fall_back=spec.model_file is not None)
    return network


def require_headers() -> None:
    """Raise UnsupportedError without Python's headers, with which Triton compiles what starts its kernels."""
    folder = Path(sysconfig.get_path("include"))
    if not (folder / "Python.h").exists():
        raise UnsupportedError(f"torch.compile needs Python.h, which is not in {folder}; install python3-dev")


def compile_network(network: nn.Module, mode: str, may_fall_back: bool = False) -> None:
    """Compile the network when it is called, once for each shape of its input. mode: see torch.compile.

    By default PyTorch compiles a second input shape, such as an evaluation's, and all later ones with dynamic shapes.
    Earlier compilations of this process are discarded, because PyTorch compiles a function at most eight times per
    process, and then runs it eagerly with only a warning. may_fall_back: whether this network may run eagerly then, as
    a user's own may, whose record says so. For any other network it is an error.
    """
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch._dynamo.config.fail_on_recompile_limit_hit = not may_fall_back
    network.compile(mode=mode, dynamic=False)


def set_precision(spec: RunSpec, device: torch.device) -> None:
    """Switch TF32 on or off. By default it is on for convolutions and off for matrix products."""
    if spec.precision == "tf32" and torch.cuda.get_device_capability(device) < (8, 0):
        raise UnsupportedError(f"tf32 needs compute capability 8.0 or later, not {torch.cuda.get_device_name(device)}")
    if spec.precision == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported(False):
        raise UnsupportedError(f"bf16 needs compute capability 8.0 or later, not {torch.cuda.get_device_name(device)}")
    torch.backends.cuda.matmul.allow_tf32 = spec.precision == "tf32"
    torch.backends.cudnn.allow_tf32 = spec.precision == "tf32"


class Network(nn.Module):
    """A model and, before it, the normalisation of its uint8 images, which happens on the device."""

    def __init__(self, spec: RunSpec, data: PreparedData):
        super().__init__()
        self.precision = spec.precision
        self.memory_format = torch.channels_last if spec.tier == "best" else torch.contiguous_format
        if spec.model_file:
            self.model = import_own_models("torch").build_for_run(spec, data.image_shape, data.num_classes)
        else:
            context = LayerContext(spec.batchnorm, spec.seed, spec.eval_batchnorm)
            self.model = build(spec.model, data.image_shape, data.num_classes, context, **spec.model_options)
            set_inflation(self.model, spec, data.image_shape)
        for name, values in (("mean", data.channel_mean), ("std", data.channel_std)):
            self.register_buffer(name, torch.tensor(values).reshape(1, -1, 1, 1), persistent=False)

    def forward(self, images):
        """images: uint8 (batch, height, width, channels). Returns float32 logits (batch, classes)."""
        x = images.permute(0, 3, 1, 2).to(torch.float32, memory_format=self.memory_format)
        x = (x - self.mean) / self.std
        dtype = AUTOCAST.get(self.precision)
        with torch.autocast(x.device.type, dtype, enabled=dtype is not None):
            return self.model(x, *self._compute_image_keys(images)).float()

    def _compute_image_keys(self, images):
        """Return the model's further arguments: the images' keys if it has dropout and trains, otherwise none."""
        return [self.model.image_keys(images)] if self.training and hasattr(self.model, "image_keys") else []


class TorchBackend(StepwiseBackend):
    """One process and the network on its device. Subclasses wrap `network` so that all devices train one model.

    own_network: the network without the wrapper. devices: all devices of this process. compile_mode: mode in which the
    `best` tier compiles the network on GPUs, see torch.compile; None if it does not.
    """

    compile_mode: str | None = "default"
    out_of_memory_errors = (torch.OutOfMemoryError,)

    def set_up(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray], device_index: int) -> None:
        self.spec, self.is_cuda = spec, spec.device_kind == "cuda"
        self.device = torch.device("cuda", device_index) if self.is_cuda else torch.device("cpu")
        self.devices = [self.device]
        if self.is_cuda:
            torch.cuda.set_device(self.device)
        network = Network(spec, data)
        # After a user's file was imported, which may set both for the whole process.
        torch.set_num_threads(spec.cores_per_device)
        set_precision(spec, self.device)
        self._weights_of = import_own_models("torch") if spec.model_file else sys.modules[__name__]
        self.model, self._weight_names = network.model, list(weights)
        self.load(weights)
        self.network = self.own_network = apply_tier(network.to(self.device), spec, self.compile_mode)
        self._copier = Copier(self.device)
        self.optimizer = build_optimizer(self._group_parameters(), spec)
        self.loss_function = build_loss(spec, data)
        self.scaler = LossScaler(spec, self.device)
        self._losses: list[torch.Tensor] = []
        self.network.train()
        if spec.model_file:
            self.seed_draws(spec.seed)

    def list_statistics(self) -> list[torch.Tensor]:
        """Return what devices unite before an evaluation: all running statistics.

        Those of a user's model are all its arrays that are not trained, because its layers may keep statistics, too.
        """
        if not self.spec.model_file:
            return running_statistics(self.model)
        return [each for name, each in self._weights_of.map_tensors(self.model).items() if not is_trainable(name)]

    def seed_draws(self, seed: int) -> None:
        """Seed what a user's model draws in training, differently on each device. The workflow's layers use none."""
        self._weights_of.seed_all(seed + self.rank)

    def _group_parameters(self) -> list[dict]:
        """Return one group of all parameters, or one group with weight decay and one without."""
        named = dict(self.model.named_parameters())
        decay_on = self.spec.optimizer.weight_decay_on
        decayed = {self._weights_of.torch_name(name) for name in self._weight_names if is_decayed(name, decay_on)}
        others = [parameter for name, parameter in named.items() if name not in decayed]
        group = {"params": [parameter for name, parameter in named.items() if name in decayed]}
        return [group, {"params": others, "weight_decay": 0.0}] if others else [group]

    def compute_loss(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.loss_function(self.network(images), labels)

    def put_on_device(self, images: np.ndarray, labels: np.ndarray) -> Batch:
        return self._copier.put(images, labels)

    def put_for_prediction(self, images: np.ndarray) -> Batch:
        return self._copier.put(images)

    def wait_for_batch(self, batch: Batch) -> None:
        batch.wait()

    def train_step(self, batch: Batch, learning_rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.zero_grad()
        images, labels = batch.take()
        labels = labels if labels.is_floating_point() else labels.long()
        with nullcontext() if self.spec.exchanges else self.without_exchange():
            loss = self._differentiate(images, labels)
        self.step_optimizer()
        if hasattr(self.model, "image_keys"):
            self.model.image_keys.steps += 1
        self._losses.append(loss.detach())

    def _differentiate(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Compute the gradients of a batch. Return its mean loss."""
        if self.spec.accumulate > 1:
            return self._add_gradients(images, labels)
        loss = self.compute_loss(images, labels)
        self.scaler.scale(loss).backward()
        return loss

    def step_optimizer(self) -> None:
        """Update the weights, unless gradients overflowed in fp16."""
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def _add_gradients(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Add the gradients of all parts of a batch; devices exchange them with the last part. Return the mean loss."""
        count, losses = self.spec.accumulate, []
        for part in range(count):
            with nullcontext() if part == count - 1 else self.without_exchange():
                loss = self.compute_loss(*(self._get_part(tensor, part) for tensor in (images, labels))) / count
                self.scaler.scale(loss).backward()
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    def _get_part(self, tensor: torch.Tensor, part: int) -> torch.Tensor:
        """Return one of `accumulate` parts of a batch, which has an equal share of every device's images."""
        shares = tensor.reshape(len(self.devices), self.spec.accumulate, -1, *tensor.shape[1:])
        return shares[:, part].flatten(0, 1)

    def without_exchange(self) -> AbstractContextManager:
        """In this context, backward passes only add to the gradients of their own device."""
        return nullcontext()

    def watch_exchange(self, numbers: NumberFormats) -> AbstractContextManager:
        """While the context is open, record exchanges of gradients that PyTorch's dispatcher does not see."""
        return nullcontext()

    def measure_gradients(self, batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
        parts, scale = self._split_batches(batches), self.scaler.get_scale()
        return measure_norms(self.own_network, self.loss_function, parts, self.sum_over_ranks, scale)

    def _split_batches(
        self, batches: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield (images, labels) of each per-device batch, all on the first device of this process."""
        for batch in batches:
            images, labels = self.put_on_device(*batch).take()
            labels = labels if labels.is_floating_point() else labels.long()
            size = self.spec.per_device_batch_size
            yield from zip(images.split(size), labels.split(size), strict=True)

    @torch.no_grad()
    def predict(self, batch: Batch) -> np.ndarray:
        """With `eval_devices: first`, predict on the first device, where the network without wrapper is."""
        network = self.network if self.spec.eval_devices == "all" else self.own_network
        network.eval()
        logits = network(*batch.take()).cpu().numpy()
        network.train()
        return logits

    def mark_step(self) -> list[torch.cuda.Event] | None:
        """Return an event of each device. Their waits sleep: a thread that spins would take a core from the loader."""
        if not self.is_cuda:
            return None
        events = [torch.cuda.Event(blocking=True) for _ in self.devices]
        for device, event in zip(self.devices, events, strict=True):
            event.record(torch.cuda.current_stream(device))
        return events

    def wait_for_step(self, marker: list[torch.cuda.Event]) -> None:
        # A thread that has not chosen a device may create a context on the first.
        torch.cuda.set_device(self.device)
        for event in marker:
            event.synchronize()

    def wait_until_idle(self) -> None:
        if self.is_cuda:
            for device in self.devices:
                torch.cuda.current_stream(device).synchronize()

    def read_window_loss(self, num_steps: int) -> float:
        total = torch.stack(self._losses).sum(dtype=torch.float64)
        self._losses.clear()
        return total.item() / num_steps

    def average_loss(self, loss: float) -> float:
        value = torch.tensor(loss, dtype=torch.float64, device=self.device)
        return self.sum_over_ranks(value).item() / self.num_processes

    def read_loss_scale(self) -> LossScale | None:
        return self.scaler.read()

    def set_loss_scales(self, scales: list[float]) -> None:
        self.scaler.update(scales[-1])

    def sum_over_ranks(self, value: torch.Tensor) -> torch.Tensor:
        """Return the value itself, because there is one process."""
        return value

    def load(self, weights: dict[str, np.ndarray]) -> None:
        self._weights_of.load_weights(self.model, weights)

    def weights(self) -> dict[str, np.ndarray]:
        return self._weights_of.read_weights(self.model, self._weight_names)

    def peak_memory_bytes(self) -> int | None:
        return torch.cuda.max_memory_allocated(self.device) if self.is_cuda else None

    def versions(self) -> dict[str, str]:
        return read_versions(self.is_cuda)

    def settings(self) -> dict[str, str]:
        return describe_settings(self.own_network, self.spec, self.device) | self.scaler.describe()

    def device_model(self) -> str | None:
        return torch.cuda.get_device_name(self.device) if self.is_cuda else None
