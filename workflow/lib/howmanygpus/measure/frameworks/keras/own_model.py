"""A user's own Keras model: a keras.Model from normalised images (batch, height, width, channels) to logits."""

import re

import keras
import numpy as np

from howmanygpus.measure.frameworks.own_model_checks import check_logits, check_repeats, check_same_model, draw_images
from howmanygpus.measure.models.own import OwnModelError, build_from_file, describe, name_role
from howmanygpus.measure.spec import RunSpec

Shape = tuple[int, int, int]


def build(path: str, image_shape: Shape, num_classes: int, seed: int, options: dict) -> keras.Model:
    keras.utils.set_random_seed(seed)
    model = build_from_file(path, image_shape, num_classes, **options)
    if not isinstance(model, keras.Model):
        raise OwnModelError(f"{path}: build returned {type(model).__name__}; return a keras.Model")
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
    path: str, image_shape: Shape, num_classes: int, seed: int, options: dict
) -> tuple[dict[str, np.ndarray], bool]:
    """Check the model; return its initial weights, and whether training draws random numbers, as dropout does."""
    model, images = build(path, image_shape, num_classes, seed, options), draw_images(image_shape)
    first, again = (_call(path, model, images, num_classes, training=False) for _ in range(2))
    check_repeats(path, first, again)
    variables = map_variables(model)
    weights = {name: np.array(variable.numpy()) for name, variable in variables.items()}
    other = build(path, image_shape, num_classes, seed, options)
    other(images)
    check_same_model(path, variables, map_variables(other))
    if not model.trainable_variables:
        raise OwnModelError(f"{path}: the model has no weight to train; assign layers as attributes of the model")
    first, again = (_call(path, model, images, num_classes, training=True) for _ in range(2))
    return weights, not np.array_equal(first, again)


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
