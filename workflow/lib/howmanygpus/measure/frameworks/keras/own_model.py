"""A user's own Keras model: a keras.Model from normalised images (batch, height, width, channels) to logits."""

import re
from collections.abc import Iterable

import keras
import numpy as np
import tensorflow as tf

from howmanygpus.measure.frameworks.own_model_checks import (
    REDUCED,
    check_evaluation,
    check_logits,
    check_same_model,
    check_same_network,
    draw_images,
)
from howmanygpus.measure.models.own import OwnModelError, build_from_file, describe, name_role, read_generators
from howmanygpus.measure.spec import RunSpec

Shape = tuple[int, int, int]
DRAWS = re.compile("Random|Rng|Multinomial|TruncatedNormal|StatefulUniform")
"""Found in the names of TensorFlow's operations that draw random numbers."""


def build(path: str, image_shape: Shape, num_classes: int, seed: int, options: dict) -> keras.Model:
    """Build the model with all generators at `seed`. Raises OwnModelError if the file chooses a precision."""
    keras.utils.set_random_seed(seed)
    policy = keras.config.dtype_policy().name
    model = build_from_file(path, image_shape, num_classes, **options)
    if not isinstance(model, keras.Model):
        raise OwnModelError(f"{path}: build returned {type(model).__name__}; return a keras.Model")
    if (found := keras.config.dtype_policy().name) != policy:
        keras.config.set_dtype_policy(policy)
        problem = f"the file sets the precision policy {found}"
        raise OwnModelError(f"{path}: {problem}; leave it out, because the study's `precision` chooses the policy")
    return model


def build_for_run(spec: RunSpec, images: keras.KerasTensor, num_classes: int) -> keras.KerasTensor:
    """Return the logits of normalised images."""
    assert spec.model_file is not None
    model = build(spec.model_file, tuple(images.shape[1:]), num_classes, spec.seed, spec.model_options)
    logits = model(images)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.synchronized = spec.batchnorm == "synchronized"
    return logits


def map_variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Return the user's variables by canonical name: their position, because Keras numbers the names of layers anew."""
    trained = {id(variable) for variable in model.trainable_variables}
    named = {}
    for position, variable in enumerate(model.weights):
        path = re.sub(r"_\d+(?=/|$)", "", variable.path).replace("/", ".")
        named[f"{position}.{path}{name_role(id(variable) in trained, len(variable.shape))}"] = variable
    return named


def initialize(
    path: str, image_shape: Shape, num_classes: int, seed: int, options: dict, precisions: Iterable[str] = ()
) -> tuple[dict[str, np.ndarray], bool]:
    """Check the model; return its initial weights, and whether training draws random numbers, as dropout does.

    precisions: mixed ones in which the model must be able to train on CPUs.
    """
    model, images = build(path, image_shape, num_classes, seed, options), draw_images(image_shape)
    evaluated = _check_evaluation(path, model, images, num_classes)
    _check_formats(path, model)
    variables = map_variables(model)
    weights = {name: np.array(variable.numpy()) for name, variable in variables.items()}
    other = build(path, image_shape, num_classes, seed, options)
    _call(path, other, images, num_classes, training=False)
    check_same_model(path, variables, map_variables(other))
    for name, variable in map_variables(other).items():
        variable.assign(weights[name])
    check_same_network(path, "evaluation", evaluated, _check_evaluation(path, other, images, num_classes))
    if not model.trainable_variables:
        raise OwnModelError(f"{path}: the model has no weight to train; assign layers as attributes of the model")
    draws = _check_training(path, model, images, num_classes)
    for precision in precisions:
        _check_precision(path, (image_shape, num_classes, seed, options), images, precision)
    return weights, draws


def _check_evaluation(path: str, model: keras.Model, images: np.ndarray, num_classes: int) -> np.ndarray:
    def predict(scale: float) -> np.ndarray:
        return _call(path, model, np.float32(scale) * images, num_classes, training=False)

    # The first call makes layers, which draw their seeds.
    predict(1.0)
    return check_evaluation(path, predict, lambda: (read_generators(), _read_seeds(model)))


def _read_seeds(model: keras.Model) -> list:
    """Return the states of the model's generators, which are the variables that are no weights."""
    weights = {id(variable) for variable in model.weights}
    return [variable.numpy().tolist() for variable in model.variables if id(variable) not in weights]


def _check_formats(path: str, model: keras.Model) -> None:
    """Raise OwnModelError if a layer computes in a coarser format than the study's, here float32, or keeps another."""
    for layer in model._flatten_layers():
        if layer.compute_dtype in REDUCED.values():
            problem = f"the layer {layer.name} computes in {layer.compute_dtype}, whatever the study's `precision`"
            raise OwnModelError(f"{path}: {problem}; leave its dtype out")
    for variable in model.trainable_variables:
        if variable.dtype != "float32":
            raise OwnModelError(f"{path}: the weight {variable.path} is {variable.dtype}; keep weights in float32")


def _check_training(path: str, model: keras.Model, images: np.ndarray, num_classes: int) -> bool:
    """Return whether the model in training draws random numbers, however rarely they matter."""
    first = _call(path, model, images, num_classes, training=True)
    before = read_generators()
    again = _call(path, model, images, num_classes, training=True)
    if read_generators() != before:
        problem = "the model in training draws from numpy.random or random, whose numbers TensorFlow takes only once"
        raise OwnModelError(f"{path}: {problem}; draw by layers of Keras or by keras.random")
    try:
        function = tf.function(lambda x: model(x, training=True), autograph=False)
        graph = function.get_concrete_function(tf.TensorSpec(images.shape, tf.float32)).graph.as_graph_def()
    except Exception as error:
        problem = f"the model in training raised {describe(error)} in a graph of TensorFlow"
        raise OwnModelError(f"{path}: {problem}; correct it") from error
    operations = {node.op for each in (graph.node, *(f.node_def for f in graph.library.function)) for node in each}
    return any(map(DRAWS.search, operations)) or not np.array_equal(first, again)


def _check_precision(path: str, given: tuple, images: np.ndarray, precision: str) -> None:
    """Raise OwnModelError if the forward or the backward pass fails under the policy of a mixed precision.

    given: the arguments of build after the path.
    """
    policy = keras.config.dtype_policy().name
    keras.config.set_dtype_policy(f"mixed_{REDUCED[precision]}")
    try:
        model = build(path, *given)
        with tf.GradientTape() as tape:
            logits = tf.cast(model(images, training=True), tf.float32)
        tape.gradient(logits, [variable.value for variable in model.trainable_variables])
    except OwnModelError:
        raise
    except Exception as error:
        problem = f"the model in training in {precision} raised {describe(error)}"
        remedy = 'give dtype="float32" to the layers that need it, or leave the precision out of the study'
        raise OwnModelError(f"{path}: {problem}; {remedy}") from error
    finally:
        keras.config.set_dtype_policy(policy)


def _call(path: str, model: keras.Model, images: np.ndarray, num_classes: int, training: bool) -> np.ndarray:
    try:
        logits = model(images, training=training)
    except Exception as error:
        where = "(batch, height, width, channels)"
        problem = f"the model raised {describe(error)} for images {where} of shape {images.shape}"
        raise OwnModelError(f"{path}: {problem}; correct it") from error
    if not keras.ops.is_tensor(logits):
        raise OwnModelError(f"{path}: the model returned {type(logits).__name__}; return one tensor of logits")
    logits = keras.ops.convert_to_numpy(logits)
    check_logits(path, logits, num_classes)
    return logits
