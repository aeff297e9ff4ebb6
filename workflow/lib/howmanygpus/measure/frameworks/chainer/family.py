"""Code that the backends of the Chainer family share: network, weights, optimizers."""

import math

import chainer
import numpy as np

from howmanygpus.measure.frameworks.chainer.layers.context import LayerContext
from howmanygpus.measure.frameworks.chainer.walker import build
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import UnsupportedError
from howmanygpus.measure.models.initialization import is_decayed, is_trainable
from howmanygpus.measure.spec import OptimizerSpec, RunSpec

ROLES = {
    **{"kernel": "W", "bias": "b", "scale": "gamma", "offset": "beta"},
    **{"mean": "avg_mean", "variance": "avg_var"},
}
AXES_TO_CHAINER = {4: (3, 2, 0, 1), 2: (1, 0)}
"""Canonical kernels are (height, width, in, out), (in, out); Chainer's are (out, in, height, width), (out, in)."""
AXES_FROM_CHAINER = {4: (2, 3, 1, 0), 2: (1, 0)}


class Network(chainer.Chain):
    """A model and, before it, the normalisation of its uint8 images, which happens on the device."""

    def __init__(self, spec: RunSpec, data: PreparedData, communicator):
        super().__init__()
        with self.init_scope():
            context = LayerContext(spec.batchnorm, communicator, spec.seed, spec.eval_batchnorm)
            self.model = build(spec.model, data.image_shape, data.num_classes, context, **spec.model_options)
        for name, values in (("mean", data.channel_mean), ("std", data.channel_std)):
            self.add_persistent(name, np.asarray(values, np.float32).reshape(1, -1, 1, 1))
        self._set_inflations(spec, data.image_shape)

    def forward(self, images):
        """images: uint8 (batch, height, width, channels). Returns float32 logits (batch, classes)."""
        x = images.transpose(0, 3, 1, 2).astype(np.float32)
        # A model with dropout draws the units to drop from the keys of the images.
        draws = chainer.config.train and hasattr(self.model, "image_keys")
        return self.model((x - self.mean) / self.std, *([self.model.image_keys(images)] if draws else []))

    def _set_inflations(self, spec: RunSpec, image_shape: tuple[int, int, int]) -> None:
        """Tell every BatchNormalization how many values per channel one of its training batches has.

        n counts this process's values only: MultiNodeBatchNormalization includes the other processes' images in its
        variance, but not in n.
        """
        batch_size = spec.per_device_batch_size

        class NoteShape(chainer.LinkHook):
            name = "note_shape"

            def forward_preprocess(self, args):
                if hasattr(args.link, "inflation"):
                    values = batch_size * math.prod(args.args[0].shape[2:])
                    args.link.inflation = values / max(values - 1, 1)

        with NoteShape(), chainer.using_config("train", False), chainer.no_backprop_mode():
            self(np.zeros((1, *image_shape), np.uint8))

    def _find(self, canonical_name: str):
        layer, _, role = canonical_name.rpartition(".")
        return getattr(self.model, layer), ROLES[role]

    def get_parameter(self, canonical_name: str) -> chainer.Parameter:
        link, attribute = self._find(canonical_name)
        return getattr(link, attribute)

    def load_weights(self, weights: dict[str, np.ndarray]) -> None:
        """Copy canonical weights in. Raises ValueError if the model has other arrays or other shapes."""
        persistent = {name for name in chainer_state(self.model) if not name.endswith("/N")}
        if len(persistent) != len(weights):
            raise ValueError(f"the model has {len(persistent)} arrays {sorted(persistent)}, the weights {len(weights)}")
        for name, array in weights.items():
            link, attribute = self._find(name)
            array = np.ascontiguousarray(array.transpose(AXES_TO_CHAINER.get(array.ndim)))
            target = getattr(link, attribute)
            if target.shape != array.shape:
                raise ValueError(f"{name} has shape {array.shape} in Chainer's layout, the model's {target.shape}")
            (target.array if isinstance(target, chainer.Parameter) else target)[...] = array
            if attribute == "avg_var":
                target *= np.float32(link.inflation)

    def read_weights(self, names) -> dict[str, np.ndarray]:
        """Return arrays under canonical names and layouts."""
        arrays = {}
        for name in names:
            link, attribute = self._find(name)
            value = getattr(link, attribute)
            array = chainer.backends.cuda.to_cpu(value.array if isinstance(value, chainer.Parameter) else value)
            array = array / np.float32(link.inflation) if attribute == "avg_var" else array
            arrays[name] = np.array(array.transpose(AXES_FROM_CHAINER.get(array.ndim)), order="C")
        return arrays


def apply_tier(tier: str) -> None:
    """Measure cuDNN's algorithms in the tier `best` only, also if this process did tasks of the other tier before."""
    chainer.global_config.autotune = tier == "best"


def require_cudnn() -> None:
    """Raise UnsupportedError if Chainer has no cuDNN: it would silently compute with slower code of its own."""
    if not chainer.backends.cuda.cudnn_enabled:
        raise UnsupportedError(
            f"Chainer {chainer.__version__} found no cuDNN and would fall back to slower kernels: `import cupy.cudnn` "
            "fails in its environment, or CHAINER_CUDNN is 0"
        )


def chainer_state(model: chainer.Chain) -> dict:
    """Return every array that Chainer would save of a model, by its path."""
    serializer = chainer.serializers.DictionarySerializer()
    serializer.save(model)
    return serializer.target


class Optimizer:
    """Chainer's own updates, with hyperparameters set before each step so that they agree with other frameworks.

    Chainer's sgd keeps rate * v instead of the sum of gradients v, so its momentum is multiplied by the ratio of
    successive rates. Its Adam adds epsilon before the correction of the second moment, so epsilon is multiplied by that
    correction.
    """

    def __init__(self, spec: OptimizerSpec):
        self.spec, self._step = spec, 0
        self._rate: float | None = None
        if spec.name == "sgd":
            self.optimizer = chainer.optimizers.MomentumSGD(spec.learning_rate, spec.momentum)
        else:
            options = {"beta1": spec.beta1, "beta2": spec.beta2, "eps": spec.epsilon}
            rule = {"adam": chainer.optimizers.Adam, "adamw": chainer.optimizers.AdamW}[spec.name]
            self.optimizer = rule(spec.learning_rate, **options)

    def setup(self, network: Network, names) -> None:
        """Let the parameters decay. Chainer's hook adds the decay to the gradient. names: canonical ones."""
        self.optimizer.setup(network)
        decay_on = self.spec.weight_decay_on
        for name in filter(is_trainable, names):
            rule = network.get_parameter(name).update_rule
            decay = self.spec.weight_decay if is_decayed(name, decay_on) else 0.0
            if self.spec.name == "adamw":
                rule.hyperparam.weight_decay_rate = decay
            elif decay:
                rule.add_hook(chainer.optimizer_hooks.WeightDecay(decay))

    def prepare_step(self, learning_rate: float) -> None:
        self._step += 1
        hyperparameters = self.optimizer.hyperparam
        if self.spec.name in ("adam", "adamw"):
            # Chainer's adamw decays by eta alone, and multiplies the whole update by it.
            hyperparameters.alpha, hyperparameters.eta = learning_rate, 1.0
            if self.spec.name == "adamw":
                hyperparameters.alpha, hyperparameters.eta = 1.0, learning_rate
            hyperparameters.eps = self.spec.epsilon * math.sqrt(1.0 - self.spec.beta2**self._step)
            return
        hyperparameters.lr = learning_rate
        if self._rate:
            hyperparameters.momentum = self.spec.momentum * learning_rate / self._rate
        self._rate = learning_rate
