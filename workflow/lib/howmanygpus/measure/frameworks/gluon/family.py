"""Code that the backends of the MXNet Gluon family share: network, weights, optimizers, images on the device."""

import math

import mxnet as mx
import numpy as np
from mxnet.gluon import nn

from howmanygpus.measure.frameworks.gluon.layers.context import LayerContext
from howmanygpus.measure.frameworks.gluon.walker import build
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.models.initialization import is_decayed
from howmanygpus.measure.spec import OptimizerSpec, RunSpec

ROLES = {
    **{"kernel": "weight", "bias": "bias", "scale": "gamma", "offset": "beta"},
    **{"mean": "running_mean", "variance": "running_var"},
}
AXES_TO_GLUON = {4: (3, 2, 0, 1), 2: (1, 0)}
"""Canonical kernels are (height, width, in, out) and (in, out); Gluon's are (out, in, height, width), (out, in)."""
AXES_FROM_GLUON = {4: (2, 3, 1, 0), 2: (1, 0)}


class Network(nn.HybridBlock):
    """A model and, before it, the normalisation of its uint8 images, which happens on the device."""

    def __init__(self, spec: RunSpec, data: PreparedData):
        super().__init__()
        with self.name_scope():
            context = LayerContext(spec.batchnorm, spec.num_gpus, spec.seed, spec.eval_batchnorm)
            self.model = build(spec.model, data.image_shape, data.num_classes, context, **spec.model_options)
            for name, values in (("mean", data.channel_mean), ("std", data.channel_std)):
                constant = np.asarray(values, np.float32).reshape(1, -1, 1, 1)
                setattr(self, name, self.params.get_constant(name, constant))

    def hybrid_forward(self, F, images, mean, std):
        """images: uint8 (batch, height, width, channels). Returns float32 logits (batch, classes)."""
        # On a CPU, MXNet takes ten times as long to transpose uint8 as float32.
        x = F.transpose(F.cast(images, "float32"), axes=(0, 3, 1, 2))
        # A model with dropout draws the units to drop from the keys of the images.
        keys = [self.model.image_keys(images)] if hasattr(self.model, "image_keys") else []
        return self.model(F.broadcast_div(F.broadcast_sub(x, mean), std), *keys)


def copy_to(array: np.ndarray, context: mx.Context) -> mx.nd.NDArray:
    """Return a copy on a context. A copy to a GPU is from pinned memory and continues in the background."""
    if context.device_type == "cpu":
        return mx.nd.array(array, ctx=context, dtype=array.dtype)
    return mx.nd.array(array, ctx=mx.cpu_pinned(context.device_id), dtype=array.dtype).as_in_context(context)


def map_parameters(network: Network, names) -> dict[str, mx.gluon.Parameter]:
    """Return the model's parameters by canonical name. Raises ValueError if it has others than `names`."""
    parameters = {}
    for name in names:
        layer, _, role = name.rpartition(".")
        parameters[name] = getattr(getattr(network.model, layer, None), ROLES[role], None)
    collected = network.collect_params().values()
    present = {parameter.name for parameter in collected if not isinstance(parameter, mx.gluon.Constant)}
    found = {parameter.name for parameter in parameters.values() if parameter is not None}
    missing = [name for name, parameter in parameters.items() if parameter is None]
    if missing or present != found:
        raise ValueError(f"parameters and model differ in {sorted([*missing, *(present ^ found)])}; name them alike")
    return parameters


def load_weights(parameters: dict[str, mx.gluon.Parameter], weights: dict[str, np.ndarray]) -> None:
    """Copy canonical weights in, on every device."""
    for name, array in weights.items():
        transposed = np.ascontiguousarray(array.transpose(AXES_TO_GLUON.get(array.ndim)))
        parameters[name].set_data(mx.nd.array(transposed))


def read_weights(parameters: dict[str, mx.gluon.Parameter], of_first: bool = False) -> dict[str, np.ndarray]:
    """Return parameters of the first device and the mean of all devices' running statistics, in canonical layouts.

    of_first: return the first device's running statistics instead of the mean.
    """
    arrays = {
        name: np.stack([replica.asnumpy() for replica in parameter.list_data()]).mean(axis=0, dtype=np.float32)
        if name.endswith((".mean", ".variance")) and not of_first
        else parameter.list_data()[0].asnumpy()
        for name, parameter in parameters.items()
    }
    return {name: to_canonical(array) for name, array in arrays.items()}


def to_canonical(array: np.ndarray) -> np.ndarray:
    """Return an array of MXNet in its canonical layout."""
    return np.ascontiguousarray(array.transpose(AXES_FROM_GLUON.get(array.ndim)))


class AdamW(mx.optimizer.Adam):
    """AdamW with MXNet's fused update; MXNet has no optimizer for it that corrects the bias of the moments."""

    OPERATOR = "mxnet.nd.contrib.adamw_update"

    def update(self, index, weight, grad, state):
        self._update_count(index)
        rate, decay, step = self._get_lr(index), self._get_wd(index), self._index_update_count[index]
        correction = math.sqrt(1.0 - self.beta2**step) / (1.0 - self.beta1**step)
        options = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon, "wd": decay}
        mean, variance = state
        # The operator computes weight -= eta * (lr * mean / (sqrt(variance) + epsilon) + wd * weight).
        mx.nd.contrib.adamw_update(
            weight, grad, mean, variance, self.rescale_grad, lr=correction, eta=rate, out=weight, **options
        )


def set_weight_decay(parameters: dict[str, mx.gluon.Parameter], weight_decay_on: str) -> None:
    """Leave parameters out of the optimizer's weight decay. parameters: by canonical name."""
    for name, parameter in parameters.items():
        parameter.wd_mult = float(is_decayed(name, weight_decay_on))


class Optimizer:
    """MXNet's own fused updates, with hyperparameters set before each step so that they agree with other frameworks.

    MXNet's sgd keeps rate * v instead of the sum of gradients v, so its momentum is multiplied by the ratio of
    successive rates. Its Adam adds epsilon before the correction of the second moment, so epsilon is multiplied by that
    correction.
    """

    def __init__(self, spec: OptimizerSpec):
        self.spec, self._step = spec, 0
        self._rate: float | None = None
        options = {"learning_rate": spec.learning_rate, "wd": spec.weight_decay}
        if spec.name == "sgd":
            self.optimizer = mx.optimizer.SGD(momentum=spec.momentum, lazy_update=False, **options)
        else:
            options |= {"beta1": spec.beta1, "beta2": spec.beta2, "epsilon": spec.epsilon}
            rule = {"adam": mx.optimizer.Adam, "adamw": AdamW}[spec.name]
            self.optimizer = rule(lazy_update=False, **options)

    def prepare_step(self, learning_rate: float) -> None:
        self._step += 1
        self.optimizer.set_learning_rate(learning_rate)
        if self.spec.name in ("adam", "adamw"):
            self.optimizer.epsilon = self.spec.epsilon * math.sqrt(1.0 - self.spec.beta2**self._step)
        elif self.spec.momentum and self._rate:
            self.optimizer.momentum = self.spec.momentum * learning_rate / self._rate
        self._rate = learning_rate
