"""A user's own flax model: an nnx.Module from normalised images (batch, height, width, channels) to logits."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import DEVICE_AXIS
from howmanygpus.measure.frameworks.own_model_checks import check_logits, check_repeats, check_same_model, draw_images
from howmanygpus.measure.loop.backend import UnsupportedError
from howmanygpus.measure.models.own import OwnModelError, build_from_file, describe, import_file, name_role
from howmanygpus.measure.spec import RunSpec

Shape = tuple[int, int, int]


def build(path: str, image_shape: Shape, num_classes: int, seed: int, options: dict) -> nnx.Module:
    model = build_from_file(path, image_shape, num_classes, rngs=nnx.Rngs(seed), **options)
    if not isinstance(model, nnx.Module):
        raise OwnModelError(f"{path}: build returned {type(model).__name__}; return a flax.nnx.Module")
    known = nnx.Param, nnx.BatchStat
    if others := {type(variable).__name__ for _, variable in _find_all(model) if not isinstance(variable, known)}:
        remedy = "use layers without random numbers in training (no nnx.Dropout), and only nnx.Param and nnx.BatchStat"
        raise OwnModelError(f"{path}: the model has variables of {', '.join(sorted(others))}; {remedy}")
    return model


def build_for_run(spec: RunSpec, image_shape: Shape, num_classes: int) -> nnx.Module:
    assert spec.model_file is not None
    options = dict(spec.model_options)
    if spec.precision == "bf16":
        options["dtype"] = jnp.bfloat16
        if not _accepts_dtype(spec.model_file):
            raise UnsupportedError(f"build of {spec.model_file} has no parameter dtype")
    model = build(spec.model_file, image_shape, num_classes, spec.seed, options)
    for _, module in nnx.iter_modules(model):
        if isinstance(module, nnx.BatchNorm):
            module.axis_name = DEVICE_AXIS if spec.batchnorm == "synchronized" else None
    return model


def _accepts_dtype(path: str) -> bool:
    parameters = inspect.signature(import_file(path).build).parameters.values()
    return any(each.name == "dtype" or each.kind is each.VAR_KEYWORD for each in parameters)


def _find_all(model: nnx.Module) -> list[tuple[tuple, nnx.Variable]]:
    return list(nnx.to_flat_state(nnx.state(model)))


def canonical_names(state: nnx.State) -> dict[tuple, str]:
    """Return the canonical name of every variable, by its path, which begins with the network's field `own`."""
    return {path: name_variable(path[1:], variable) for path, variable in nnx.to_flat_state(state)}


def name_variable(path: tuple, variable: nnx.Variable) -> str:
    shape = jnp.shape(variable.get_value())
    return ".".join(map(str, path)) + name_role(isinstance(variable, nnx.Param), len(shape))


def initialize(
    path: str, image_shape: Shape, num_classes: int, seed: int, options: dict
) -> tuple[dict[str, np.ndarray], bool]:
    """Check the model; return its initial weights, and that training draws no random numbers."""
    model, images = build(path, image_shape, num_classes, seed, options), draw_images(image_shape)
    weights = _read(model)
    check_same_model(path, weights, _read(build(path, image_shape, num_classes, seed, options)))
    if not any(isinstance(variable, nnx.Param) for _, variable in _find_all(model)):
        raise OwnModelError(f"{path}: the model has no nnx.Param to train; assign layers as attributes of the module")
    model.eval()
    first, again = (_call(path, model, images, num_classes) for _ in range(2))
    check_repeats(path, first, again)
    model.train()
    _call(path, model, images, num_classes)
    return weights, False


def _read(model: nnx.Module) -> dict[str, np.ndarray]:
    return {name_variable(path, variable): np.asarray(variable.get_value()) for path, variable in _find_all(model)}


def _call(path: str, model: nnx.Module, images: np.ndarray, num_classes: int) -> np.ndarray:
    try:
        logits = model(jnp.asarray(images))
    except Exception as error:
        where = "(batch, height, width, channels)"
        problem = f"the model raised {describe(error)} for images {where} of shape {images.shape}"
        raise OwnModelError(f"{path}: {problem}; correct it") from error
    if not isinstance(logits, jax.Array):
        raise OwnModelError(f"{path}: the model returned {type(logits).__name__}; return one array of logits")
    check_logits(path, np.asarray(logits), num_classes)
    return np.asarray(logits)
