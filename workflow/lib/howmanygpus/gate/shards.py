"""
The network of the parity gate's reference, applied to each device's share of a batch, with one update for all.

NumPy computes the loss: the simulated rounding of bf16, which leaves losses in float32, only sees PyTorch.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import torch
from torch import nn

from howmanygpus.gate.cross_entropy import count_terms, sigmoid_cross_entropy, softmax_cross_entropy
from howmanygpus.gate.relus import GatedRelu, Watcher
from howmanygpus.gate.task import compute_keys
from howmanygpus.measure.frameworks.torch.family import load_weights, to_canonical, torch_name
from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.running_statistics import set_inflation, variance_inflations
from howmanygpus.measure.frameworks.torch.walker import build
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.models.initialization import is_trainable
from howmanygpus.measure.spec import OptimizerSpec, RunSpec


class PartOfLoss(torch.autograd.Function):
    """Contribution of one device's images to the loss of the global batch.

    logits: (count, classes); labels: as in PreparedData; num_terms: number of losses in the global batch.
    """

    @staticmethod
    def forward(ctx, logits, labels: np.ndarray, smoothing: float, num_terms: int):
        values = logits.detach().numpy()
        if labels.ndim == 2:
            losses, gradient = sigmoid_cross_entropy(values, labels)
        else:
            losses, gradient = softmax_cross_entropy(values, labels, smoothing)
        ctx.gradient = torch.from_numpy(gradient / num_terms)
        return torch.tensor(losses.sum() / num_terms)

    @staticmethod
    def backward(ctx, _):
        """Return the gradients. The loss itself is differentiated, so the incoming gradient is one."""
        return ctx.gradient, None, None, None


class Reference:
    """One network per shard. The networks share parameters and have running statistics of their own.

    arithmetic: a context in which the networks compute. watcher: sees their ReLUs. dtype: type of all their numbers.
    """

    def __init__(
        self,
        spec: RunSpec,
        data: PreparedData,
        weights: dict[str, np.ndarray],
        num_shards: int,
        arithmetic: AbstractContextManager,
        watcher: Watcher | None = None,
        dtype: torch.dtype = torch.float64,
    ):
        self.arithmetic, self.watcher, self.dtype = arithmetic, watcher, dtype
        self.spec, self.data, self.names = spec, data, list(weights)
        arguments = (spec.model, data.image_shape, data.num_classes, LayerContext("local", spec.seed))
        self.shards = [build(*arguments, **spec.model_options) for _ in range(num_shards)]
        shard_spec = RunSpec.from_dict(spec.to_dict() | {"num_gpus": num_shards})
        for shard in self.shards:
            set_inflation(shard, shard_spec, data.image_shape)
            load_weights(shard, weights)
            shard.to(dtype)
        self.inflations = variance_inflations(self.shards[0])
        self.parameters = [name for name in self.names if is_trainable(name)]
        self.moments: dict[str, list[torch.Tensor]] = {}

    def _normalise(self, images: np.ndarray) -> torch.Tensor:
        mean, std = (torch.tensor(values)[:, None, None] for values in (self.data.channel_mean, self.data.channel_std))
        pixels = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)
        return ((pixels.double() - mean) / std).to(self.dtype)

    def compute_gradients(
        self, images: np.ndarray, labels: np.ndarray, step: int
    ) -> tuple[float, dict[str, torch.Tensor]]:
        """Return the mean loss over the global batch, and its gradients by PyTorch's names.

        The mean is over the images, or over the known labels if an image has any number of them. step counts from 1.
        """
        losses: list[float] = []
        gradients: dict[str, torch.Tensor] = {}
        given = (self._normalise(images), torch.from_numpy(images), torch.from_numpy(labels))
        parts = zip(*map(self._split, given), strict=True)
        num_terms, smoothing = count_terms(labels), self.spec.label_smoothing
        for position, (x, pixels, y) in enumerate(parts):
            shard = self.shards[position % len(self.shards)].train()
            named = dict(shard.named_parameters())
            with self.arithmetic:
                keys = [torch.from_numpy(each) for each in compute_keys(shard, pixels.numpy(), step)]
                with self._watch(shard, x, *keys):
                    logits = shard(x, *keys)
                loss = PartOfLoss.apply(logits, y.numpy(), smoothing, num_terms)
                computed = torch.autograd.grad(loss, list(named.values()))
            for name, gradient in zip(named, computed, strict=True):
                gradients[name] = gradients.get(name, 0.0) + gradient
            losses.append(loss.item())
        return float(np.sum(losses)), gradients

    @contextmanager
    def _watch(self, shard: nn.Module, *inputs: torch.Tensor) -> Iterator[None]:
        """Let the watcher, if there is one, see the ReLUs of one forward pass."""
        GatedRelu.watcher = self.watcher
        if self.watcher is not None:
            self.watcher.begin(shard, *inputs)
        yield
        GatedRelu.watcher = None

    def _split(self, batch: torch.Tensor) -> list[torch.Tensor]:
        """Return the parts of a batch in the order in which they are taken: the first part of every shard, and so on.

        Every device has one block of the global batch, and takes its accumulated batches from that.
        """
        rows = batch.reshape(self.spec.num_gpus, self.spec.accumulate, -1, *batch.shape[1:])
        parts = [rows[:, position].flatten(0, 1) for position in range(self.spec.accumulate)]
        return [chunk for part in parts for chunk in part.chunk(len(self.shards))]

    @torch.no_grad()
    def update(self, gradients: dict[str, torch.Tensor], optimizer: OptimizerSpec, rate: float, step: int) -> None:
        """Take one step of sgd, adam or adamw as the documentation of the config defines them; step counts from 1."""
        of_shards = [dict(shard.named_parameters()) for shard in self.shards]
        kept = (".bias", ".scale", ".offset") if optimizer.weight_decay_on == "weights" else ()
        decays = {torch_name(name): 0.0 if name.endswith(kept) else optimizer.weight_decay for name in self.parameters}
        for name, gradient in gradients.items():
            start, decay = of_shards[0][name], decays[name]
            if optimizer.name == "adamw":
                start = start - rate * decay * start
            else:
                gradient = gradient + decay * start
            first, second = self.moments.setdefault(name, [torch.zeros_like(gradient), torch.zeros_like(gradient)])
            if optimizer.name == "sgd":
                first.mul_(optimizer.momentum).add_(gradient)
                change = first
            else:
                first.mul_(optimizer.beta1).add_((1 - optimizer.beta1) * gradient)
                second.mul_(optimizer.beta2).add_((1 - optimizer.beta2) * gradient**2)
                corrected = (second / (1 - optimizer.beta2**step)).sqrt() + optimizer.epsilon
                change = first / (1 - optimizer.beta1**step) / corrected
            updated = start - rate * change
            for parameters in of_shards:
                parameters[name].copy_(updated)

    def read_gradients(self, gradients: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
        return to_canonical(gradients, self.parameters, {})

    def read_weights(self, statistics: str) -> dict[str, np.ndarray]:
        """Return the weights. statistics: the running statistics of evaluation; see Backend.running_statistics."""
        states = [shard.state_dict() for shard in self.shards]
        if statistics == "first device":
            states = states[:1]
        mean = {torch_name(name): sum(state[torch_name(name)] for state in states) / len(states) for name in self.names}
        return to_canonical(mean, self.names, self.inflations)

    @torch.no_grad()
    def predict(self, images: np.ndarray, statistics: str) -> np.ndarray:
        shard = self.shards[0]
        own = {name: tensor.clone() for name, tensor in shard.state_dict().items()}
        load_weights(shard, self.read_weights(statistics))
        x = self._normalise(images)
        with self.arithmetic:
            logits = shard.eval()(x)
        shard.load_state_dict(own)
        return logits.numpy()

    def evaluate(self, statistics: str) -> np.ndarray:
        """Return the cross-entropy of every test image, or its logits if it has any number of labels."""
        logits, labels = self.predict(self.data.test_images, statistics), self.data.test_labels
        return logits if self.data.multi_label else softmax_cross_entropy(logits, labels, smoothing=0.0)[0]
