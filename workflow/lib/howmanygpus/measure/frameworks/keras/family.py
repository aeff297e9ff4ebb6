"""Code that the backends of the Keras family share: network, weights, optimizers, precision."""

import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from howmanygpus.measure.frameworks.keras.copying import Copier
from howmanygpus.measure.frameworks.keras.gradient_noise import GradientNorms
from howmanygpus.measure.frameworks.keras.layers.context import LayerContext
from howmanygpus.measure.frameworks.keras.loss_scaling import LossScaler, scale_losses
from howmanygpus.measure.frameworks.keras.losses import build_loss
from howmanygpus.measure.frameworks.keras.settings import describe_settings
from howmanygpus.measure.frameworks.keras.walker import build
from howmanygpus.measure.host.gpus import GIB, read_smallest_memory_gib
from howmanygpus.measure.input.prepared import PreparedData
from howmanygpus.measure.loop.backend import Backend, UnsupportedError
from howmanygpus.measure.loss_scaling import LossScale
from howmanygpus.measure.models.initialization import is_decayed
from howmanygpus.measure.models.own import import_own_models
from howmanygpus.measure.spec import RunSpec

CANONICAL_NAMES = {"gamma": "scale", "beta": "offset", "moving_mean": "mean", "moving_variance": "variance"}
"""Of the variables that Keras names otherwise."""
POLICIES = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16"}
"""Keras's names of mixed precisions, which keep variables in float32. float16 works on every device."""


def set_precision(spec: RunSpec) -> None:
    """Switch TF32, which is on by default in TensorFlow, on or off, and choose Keras's policy."""
    if spec.precision in ("tf32", "bf16") and spec.device_kind == "cuda":
        details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
        if details["compute_capability"] < (8, 0):
            raise UnsupportedError(
                f"{spec.precision} needs compute capability 8.0 or later, not {details['device_name']}"
            )
    tf.config.experimental.enable_tensor_float_32_execution(spec.precision == "tf32")
    keras.config.set_dtype_policy(POLICIES.get(spec.precision, "float32"))


def build_network(spec: RunSpec, data: PreparedData) -> keras.Model:
    """Build a model from uint8 images (batch, height, width, channels), normalised on the device, to float32 logits."""
    inputs = keras.Input(data.image_shape, dtype="uint8")
    variance = np.square(np.asarray(data.channel_std, np.float32))
    x = layers.Normalization(mean=data.channel_mean, variance=variance, dtype="float32")(inputs)
    if spec.model_file:
        logits = import_own_models("keras").build_for_run(spec, x, data.num_classes)
    else:
        context = LayerContext(spec.batchnorm, spec.seed, inputs, spec.eval_batchnorm)
        logits = build(spec.model, x, data.num_classes, context, **spec.model_options)
    return keras.Model(inputs, layers.Activation("linear", dtype="float32")(logits))


def map_variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Return the model's variables by canonical name. A user's own model is a model within the model."""
    if own := [layer for layer in model.layers if isinstance(layer, keras.Model)]:
        return import_own_models("keras").map_variables(own[0])
    return {
        f"{layer.name}.{CANONICAL_NAMES.get(variable.name, variable.name)}": variable
        for layer in model.layers
        if not isinstance(layer, layers.Normalization)
        for variable in layer.weights
    }


def list_batchnorms(model: keras.Model) -> list[layers.BatchNormalization]:
    """Return every BatchNorm, at any depth of a user's own model."""
    return [layer for layer in model._flatten_layers() if isinstance(layer, layers.BatchNormalization)]


def load_weights(model: keras.Model, weights: dict[str, np.ndarray]) -> None:
    """Copy canonical weights in. Raises ValueError naming every array that is missing or left over."""
    variables = map_variables(model)
    if set(variables) != set(weights):
        raise ValueError(f"parameters and model differ in {sorted(set(variables) ^ set(weights))}; name them alike")
    for name, variable in variables.items():
        variable.assign(weights[name])


def read_weights(model: keras.Model) -> dict[str, np.ndarray]:
    return {name: np.asarray(variable.numpy()) for name, variable in map_variables(model).items()}


class TabulatedRates(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of every step, looked up in the graph.

    scaler: counts the steps instead of the optimizer, which does not see those that are skipped in fp16.
    """

    scaler: LossScaler | None = None

    def __init__(self, rates: np.ndarray):
        self.rates = np.asarray(rates, np.float32)

    def __call__(self, step):
        step = step if self.scaler is None else self.scaler.steps
        return ops.take(ops.convert_to_tensor(self.rates), ops.minimum(ops.cast(step, "int32"), len(self.rates) - 1))


class Sgd(keras.optimizers.SGD):
    """Momentum that accumulates gradients instead of updates, so that a changing learning rate acts at once.

    v = momentum * v + gradient; variable -= rate * v (Sutskever et al. 2013 put the rate inside v, as Keras does).
    """

    def update_step(self, gradient, variable, learning_rate):
        rate, gradient = ops.cast(learning_rate, variable.dtype), ops.cast(gradient, variable.dtype)
        if self.momentum:
            velocity = self.momentums[self._get_variable_index(variable)]
            self.assign(velocity, ops.add(ops.multiply(velocity, self.momentum), gradient))
            gradient = velocity
        self.assign_sub(variable, ops.multiply(gradient, rate))


class AdamUpdate:
    """Mixin for Keras's Adam and AdamW that adds epsilon to the bias-corrected second moment.

    This is algorithm 1 of Kingma & Ba 2015. Keras adds epsilon before the correction, which makes it larger at first.
    """

    def update_step(self, gradient, variable, learning_rate):
        dtype = variable.dtype
        rate, gradient = ops.cast(learning_rate, dtype), ops.cast(gradient, dtype)
        step = ops.cast(self.iterations + 1, dtype)
        correction1 = 1 - ops.power(ops.cast(self.beta_1, dtype), step)
        correction2 = 1 - ops.power(ops.cast(self.beta_2, dtype), step)
        index = self._get_variable_index(variable)
        first, second = self._momentums[index], self._velocities[index]
        self.assign_add(first, ops.multiply(ops.subtract(gradient, first), 1 - self.beta_1))
        self.assign_add(second, ops.multiply(ops.subtract(ops.square(gradient), second), 1 - self.beta_2))
        denominator = ops.add(ops.divide(ops.sqrt(second), ops.sqrt(correction2)), self.epsilon)
        self.assign_sub(variable, ops.divide(ops.multiply(first, rate / correction1), denominator))


class Adam(AdamUpdate, keras.optimizers.Adam):
    pass


class AdamW(AdamUpdate, keras.optimizers.AdamW):
    """Keras lets each variable decay before its update."""


def with_weight_decay(optimizer_class: type, weight_decay: float) -> type:
    """Add L2 regularisation to the gradient of variables; Keras's own weight_decay is decoupled from it."""

    class Decayed(optimizer_class):
        def update_step(self, gradient, variable, learning_rate):
            if self._use_weight_decay(variable):
                gradient = gradient + weight_decay * variable
            super().update_step(gradient, variable, learning_rate)

    return Decayed if weight_decay else optimizer_class


def build_optimizer(
    run: RunSpec,
    learning_rates: np.ndarray,
    model: keras.Model,
    adapt: Callable[[type], type] = lambda optimizer_class: optimizer_class,
) -> keras.optimizers.Optimizer:
    """Return the optimizer of a model that has its weights.

    adapt: derives a subclass of the optimizer, as Horovod needs.
    """
    spec, rates = run.optimizer, TabulatedRates(learning_rates)
    rule: type = {"sgd": Sgd, "adam": Adam, "adamw": AdamW}[spec.name]
    options: dict[str, float] = {"beta_1": spec.beta1, "beta_2": spec.beta2, "epsilon": spec.epsilon}
    if spec.name == "sgd":
        options = {"momentum": spec.momentum}
    elif spec.name == "adamw":
        options["weight_decay"] = spec.weight_decay
    if spec.name != "adamw":
        rule = with_weight_decay(rule, spec.weight_decay)
    is_scaled = run.precision == "fp16"
    optimizer = (rule if is_scaled else adapt(rule))(rates, **options)
    variables = map_variables(model)
    kept = [variable for name, variable in variables.items() if not is_decayed(name, spec.weight_decay_on)]
    optimizer.exclude_from_weight_decay(var_list=kept)
    if is_scaled:
        optimizer = rates.scaler = scale_losses(optimizer, run, model.trainable_variables, adapt)
    for layer in model.layers:
        if layer.name == "image_keys":
            layer.follow(optimizer)
    return optimizer


def read_peak_bytes() -> int | None:
    """Return the peak of TensorFlow's allocator on the fullest GPU of this process; None without a GPU.

    The list of logical devices has those of all workers too, whose memory TensorFlow does not know.
    """
    names = [f"GPU:{i}" for i in range(len(tf.config.get_visible_devices("GPU")))]
    return max((tf.config.experimental.get_memory_info(name)["peak"] for name in names), default=None)


class KerasBackend(Backend):
    """One process and a model on its devices. Subclasses define how all devices train one model, by `optimizer`."""

    optimizer: keras.optimizers.Optimizer

    @property
    def compiles(self) -> bool:
        """Whether XLA compiles the step."""
        return False

    out_of_memory_errors = (tf.errors.ResourceExhaustedError,)

    def set_up(self, spec: RunSpec, data: PreparedData, weights: dict[str, np.ndarray]) -> None:
        self.spec, self.data = spec, data
        self._readers = ThreadPoolExecutor(1 + max(1, spec.prefetch), "step")
        set_precision(spec)
        self.model = build_network(spec, data)
        # Once more, because a user's file may set TF32 for the whole process.
        set_precision(spec)
        self.load(weights)
        self.copier = Copier(spec.device_kind == "cuda")

    def seed_draws(self, seed: int) -> None:
        """Seed what a user's model draws in training, once more after it was built."""
        keras.utils.set_random_seed(seed)
        for state in self._list_generators():
            for replica in self.replicas_of(state.value):
                replica.assign([seed, 0])

    def draw_apart(self) -> None:
        """Let every device draw other random numbers in a user's model, for example for dropout.

        Call it when all processes have the same state. The variables that are no weights are the states of generators.
        """
        for state in self._list_generators() if self.spec.model_file else ():
            replicas = self.replicas_of(state.value)
            for index, replica in enumerate(replicas):
                replica.assign_add([self.rank * len(replicas) + index, 0])

    def list_statistics(self) -> list[keras.Variable]:
        """Return what devices unite before an evaluation: all running statistics.

        Those of a user's model are all its weights that are not trained, because its layers may keep statistics, too.
        """
        if self.spec.model_file:
            weights = {id(variable) for variable in self.model.weights}
            untrained = [each for each in self.model.non_trainable_variables if id(each) in weights]
            return [each for each in untrained if keras.backend.is_float_dtype(each.dtype)]
        layers = list_batchnorms(self.model)
        return [statistic for layer in layers for statistic in (layer.moving_mean, layer.moving_variance)]

    def _list_generators(self) -> list[keras.Variable]:
        """Return the states of random numbers of layers: the variables of a user's model that are no weights."""
        weights = {id(variable) for variable in self.model.weights}
        return [variable for variable in self.model.variables if id(variable) not in weights]

    def replicas_of(self, value) -> tuple:
        """Return the copies of a variable on the devices of this process."""
        return (value,)

    def mark_step(self) -> Future | None:
        """Return the future copy of a variable that each GPU reads after the step.

        A thread requests the copy at once, because a copy to the host waits for everything enqueued before it is
        requested. On a CPU a step is complete when it returns. Each variable is read on its own GPU, because TensorFlow
        would otherwise copy it to the first, for which the caller waits.
        """
        if self.spec.device_kind == "cpu":
            return None
        read = []
        for replica in self.replicas_of(self.model.trainable_variables[-1].value):
            with tf.device(replica.device):
                read.append(tf.identity(replica))
        return self._readers.submit(lambda: [value.numpy() for value in read])

    def wait_for_step(self, marker: Future) -> None:
        marker.result()

    def wait_until_idle(self) -> None:
        tf.test.experimental.sync_devices()

    def read_loss_scale(self) -> LossScale | None:
        return self.optimizer.read() if isinstance(self.optimizer, LossScaler) else None

    def set_loss_scales(self, scales: list[float]) -> None:
        replicas = self.replicas_of(self.optimizer.dynamic_scale.value)
        for replica, scale in zip(replicas, scales, strict=True):
            replica.assign(scale)

    @functools.cached_property
    def _norms(self) -> GradientNorms:
        replicas = [self.replicas_of(each.value) for each in self.model.non_trainable_variables]
        return GradientNorms(
            model=self.model,
            variables=[self.replicas_of(each.value)[0] for each in self.model.trainable_variables],
            state=[replica for each in replicas for replica in each],
            loss_function=build_loss(self.spec, self.data),
            scale_loss=self.optimizer.scale_loss,
        )

    def measure_gradients(self, batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
        scaling, parts = self.read_loss_scale(), self._split_batches(batches)
        with tf.device(self.first_device):
            norms, total = self._norms.measure(parts, scaling.scale if scaling else 1.0)
        sum_of_norms, count = self.sum_over_ranks(np.array([sum(norms), len(norms)]))
        mean = self.sum_over_ranks(total).astype(np.float64) / count
        return float(sum_of_norms / count), float(np.square(mean).sum())

    def _split_batches(self, batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
        """Yield (images, labels) of each per-device batch, on the device of the context."""
        size = self.spec.per_device_batch_size
        for images, labels in batches:
            for start in range(0, len(images), size):
                yield tf.constant(images[start : start + size]), tf.constant(labels[start : start + size])

    @property
    def first_device(self) -> str:
        """Name of the first device of this process."""
        return "/gpu:0" if self.spec.device_kind == "cuda" else "/cpu:0"

    def sum_over_ranks(self, value: np.ndarray) -> np.ndarray:
        """Return the sum of an array that has the same shape on every process; with one process, the array itself."""
        return value

    def load(self, weights: dict[str, np.ndarray]) -> None:
        load_weights(self.model, weights)

    def weights(self) -> dict[str, np.ndarray]:
        return read_weights(self.model)

    def peak_memory_bytes(self) -> int | None:
        if self.spec.device_kind == "cpu":
            return None
        return read_peak_bytes()

    @classmethod
    def read_memory_in_use_frac(cls) -> float | None:
        """Return the peak in TensorFlow's own pool, which may take the whole memory when it starts."""
        memory_gib, peak_bytes = read_smallest_memory_gib(), read_peak_bytes()
        return peak_bytes / GIB / memory_gib if memory_gib and peak_bytes is not None else None

    def settings(self) -> dict[str, str]:
        described = describe_settings(self.model, self.optimizer, self.compiles)
        return described | {"host_memory": self.copier.host_memory}

    def versions(self) -> dict[str, str]:
        build = tf.sysconfig.get_build_info()
        libraries = {name: build[f"{name}_version"] for name in ("cuda", "cudnn") if f"{name}_version" in build}
        return {"keras": keras.__version__, "tensorflow": tf.__version__, **libraries}

    def device_model(self) -> str | None:
        gpus = tf.config.list_physical_devices("GPU")
        return tf.config.experimental.get_device_details(gpus[0])["device_name"] if gpus else None


def sum_over_parts(compute: Callable, images, labels, count: int) -> tuple:
    """Return the sums of the loss and of each gradient that `compute` returns for `count` parts of a batch.

    Each part waits for the one before. TensorFlow would otherwise compute them at the same time, with as much memory as
    for the whole batch.
    """
    if count == 1:
        return compute(images, labels)
    size, loss, sums = images.shape[0] // count, None, None
    for part in range(count):
        with tf.control_dependencies([] if sums is None else sums):
            x, y = (tf.identity(tensor[part * size : (part + 1) * size]) for tensor in (images, labels))
        part_loss, gradients = compute(x, y)
        loss = part_loss if loss is None else loss + part_loss
        sums = gradients if sums is None else [total + one for total, one in zip(sums, gradients, strict=True)]
    return loss, sums
