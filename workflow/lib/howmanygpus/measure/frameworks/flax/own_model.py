"""A user's own flax model: an nnx.Module from normalised images (batch, height, width, channels) to logits."""

import inspect
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from howmanygpus.measure.frameworks.flax.layers.context import DEVICE_AXIS
from howmanygpus.measure.frameworks.own_model_checks import (
    REDUCED,
    check_evaluation,
    check_logits,
    check_same_model,
    check_same_network,
    draw_images,
)
from howmanygpus.measure.loop.backend import UnsupportedError
from howmanygpus.measure.models.own import (
    OwnModelError,
    build_from_file,
    describe,
    import_file,
    name_role,
    read_generators,
    seed_generators,
)
from howmanygpus.measure.spec import RunSpec

Shape = tuple[int, int, int]


def build(path: str, image_shape: Shape, num_classes: int, seed: int, options: dict) -> nnx.Module:
    """Build the model with all generators at `seed`."""
    seed_generators(seed)
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
    path: str, image_shape: Shape, num_classes: int, seed: int, options: dict, precisions: Iterable[str] = ()
) -> tuple[dict[str, np.ndarray], bool]:
    """Check the model; return its initial weights, and that training draws no random numbers.

    precisions: mixed ones in which the model must be able to train on CPUs.
    """
    model, other = (build(path, image_shape, num_classes, seed, options) for _ in range(2))
    images, weights = draw_images(image_shape), _read(model)
    check_same_model(path, weights, _read(other))
    _check_formats(path, model)
    loaded = {
        each: variable.replace(jnp.asarray(weights[name_variable(each, variable)]))
        for each, variable in _find_all(other)
    }
    nnx.update(other, nnx.from_flat_state(loaded))
    if not any(isinstance(variable, nnx.Param) for _, variable in _find_all(model)):
        raise OwnModelError(f"{path}: the model has no nnx.Param to train; assign layers as attributes of the module")
    for mode, call in (("evaluation", _check_evaluation), ("training", _train)):
        first, again = (call(path, each, images, num_classes) for each in (model, other))
        check_same_network(path, mode, first, again)
    for precision in precisions:
        if _accepts_dtype(path):
            reduced = build(path, image_shape, num_classes, seed, options | {"dtype": jnp.dtype(REDUCED[precision])})
            _train(path, reduced, images, num_classes, f" in {precision}")
    return weights, False


def _check_evaluation(path: str, model: nnx.Module, images: np.ndarray, num_classes: int) -> np.ndarray:
    model.eval()
    return check_evaluation(
        path, lambda scale: _call(path, model, np.float32(scale) * images, num_classes), read_generators
    )


def _train(path: str, model: nnx.Module, images: np.ndarray, num_classes: int, where: str = "") -> np.ndarray:
    """Return the logits in training. where: words for the error, that say how it computes."""
    model.train()
    before = read_generators()
    logits = _call(path, model, images, num_classes, where)
    if read_generators() != before:
        problem = "the model in training draws from numpy.random or random, and JAX takes their numbers only once"
        raise OwnModelError(f"{path}: {problem}; use layers without random numbers in training")
    return logits


def _check_formats(path: str, model: nnx.Module) -> None:
    if jax.config.jax_enable_x64:
        raise OwnModelError(f"{path}: the file sets jax_enable_x64; leave it out, because runs compute in float32")
    for place, variable in _find_all(model):
        if isinstance(variable, nnx.Param) and variable.get_value().dtype != jnp.float32:
            problem = f"the parameter {'.'.join(map(str, place))} is {variable.get_value().dtype}"
            remedy = "keep parameters in float32 (param_dtype), because `precision` chooses the format of computations"
            raise OwnModelError(f"{path}: {problem}; {remedy}")


def _read(model: nnx.Module) -> dict[str, np.ndarray]:
    return {name_variable(path, variable): np.asarray(variable.get_value()) for path, variable in _find_all(model)}


def _call(path: str, model: nnx.Module, images: np.ndarray, num_classes: int, where: str = "") -> np.ndarray:
    try:
        logits = model(jnp.asarray(images))
    except Exception as error:
        shape = "(batch, height, width, channels)"
        problem = f"the model{where} raised {describe(error)} for images {shape} of shape {images.shape}"
        raise OwnModelError(f"{path}: {problem}; correct it") from error
    if not isinstance(logits, jax.Array):
        raise OwnModelError(f"{path}: the model returned {type(logits).__name__}; return one array of logits")
    logits = np.asarray(logits.astype(jnp.float32) if where else logits)
    check_logits(path, logits, num_classes)
    return logits
