"""Formats of numbers in the Keras family."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from howmanygpus.measure.frameworks.keras.loss_scaling import LossScaler
from howmanygpus.measure.frameworks.number_formats import NumberFormats

MOMENTS = ("momentums", "_momentums", "_velocities")
"""Lists of variables that Keras's optimizers keep for each trainable variable."""


def to_array(variable: Any) -> np.ndarray:
    """Return the values; float32 holds all of bfloat16 and float16."""
    array = np.asarray(keras.ops.convert_to_numpy(variable))
    return array if array.dtype == np.float64 else array.astype(np.float32)


def begin(backend: Any, batch: tuple[np.ndarray, np.ndarray]) -> Callable[[], NumberFormats]:
    """Begin to observe the next step, and return the function that ends it. See measure.frameworks.number_formats."""
    return lambda: read(backend, batch)


def read(backend: Any, batch: tuple[np.ndarray, np.ndarray]) -> NumberFormats:
    numbers = NumberFormats()
    model, optimizer = backend.model, backend.optimizer
    if isinstance(optimizer, LossScaler):
        optimizer = optimizer.inner_optimizer
    for variable in model.trainable_variables:
        numbers.add("weights", variable.path, to_array(variable), variable.dtype)
    for variable in model.non_trainable_variables:
        if variable.path.endswith(("moving_mean", "moving_variance")):
            numbers.add("statistics", variable.path, to_array(variable), variable.dtype)
    for variable in [variable for name in MOMENTS for variable in getattr(optimizer, name, None) or []]:
        numbers.add("moments", variable.path, to_array(variable), variable.dtype)
    for layer in model._flatten_layers():
        if getattr(layer, "kernel", None) is not None:
            numbers.activations.add(read_format(layer))
    return numbers


def read_format(layer: keras.Layer) -> str:
    """Return the format of a layer's output, or that in which it computes if the layer is inside a user's own."""
    try:
        return layer.output.dtype
    except (AttributeError, ValueError):
        return layer.compute_dtype
