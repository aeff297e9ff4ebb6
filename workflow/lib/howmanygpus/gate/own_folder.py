"""Checks torch.py of a user's folder, or what its layout builds, before the gate's reference is computed from it."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from howmanygpus.gate.relus import RefusedReluError
from howmanygpus.gate.task import compute_keys, draw_task_weights
from howmanygpus.measure.frameworks.torch.family import AXES_TO_TORCH, torch_name
from howmanygpus.measure.frameworks.torch.layers.context import LayerContext
from howmanygpus.measure.frameworks.torch.walker import build
from howmanygpus.measure.models.initialization import is_trainable
from howmanygpus.measure.models.own import NETWORK, PACKAGE, add_folder

COUNTER = "num_batches_tracked"


class FolderError(Exception):
    """The user's torch.py or network.py is wrong. The message names the file, what is wrong, and what to do."""


def check_or_exit(folder: str, image_shape: tuple[int, int, int], num_classes: int, options: dict) -> None:
    """Let the folder be imported, and end with the error of torch.py if it is wrong.

    folder: empty for a network of the workflow, for which nothing is checked here.
    """
    if not folder:
        return
    add_folder(folder)
    weights = draw_task_weights(Path(folder).name, image_shape, num_classes, **options)
    try:
        check_folder(folder, image_shape, num_classes, options, weights)
    except FolderError as error:
        # The traceback of the user's code says where; the last line says what to do.
        if error.__cause__ is not None:
            sys.excepthook(type(error.__cause__), error.__cause__, error.__cause__.__traceback__)
        sys.exit(str(error))


def check_folder(
    folder: str, image_shape: tuple[int, int, int], num_classes: int, options: dict, weights: dict[str, np.ndarray]
) -> None:
    """Raise FolderError unless torch.py or the layout builds a model with the arrays `weights` that can be trained."""
    name, path = Path(folder).name, Path(folder, f"{NETWORK}.py")
    problem = "has a layout that raised"
    if not path.is_file():
        path, problem = path.with_name("torch.py"), "has a build that raised"
        _call(str(path), "cannot be imported", importlib.import_module, f"{PACKAGE}.{name}.torch")
    file, context = str(path), LayerContext("local", 1)
    model = _call(file, problem, build, name, image_shape, num_classes, context, **options)
    if not isinstance(model, nn.Module):
        raise FolderError(f"{file}: build returned {type(model).__name__}; return a torch.nn.Module")
    _check_arrays(file, model, weights)
    images = np.random.default_rng(0).integers(0, 256, (2, *image_shape), dtype=np.uint8)
    keys = [torch.from_numpy(each) for each in compute_keys(model, images, 1)]
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    logits = _call(file, "has a model that raised", model.train(), x, *keys)
    if not isinstance(logits, torch.Tensor) or logits.shape != (2, num_classes):
        found = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise FolderError(f"{file}: the model returned {found} for 2 images; return logits {(2, num_classes)}")
    if not torch.isfinite(logits).all():
        raise FolderError(f"{file}: the model returned logits that are not finite; correct it or its initial weights")
    if logits.requires_grad:
        logits.sum().backward()
    if unused := [name for name, parameter in model.named_parameters() if parameter.grad is None]:
        raise FolderError(f"{file}: {', '.join(unused[:3])} take no part in the logits; remove them, or train them")


def _check_arrays(file: str, model: nn.Module, weights: dict[str, np.ndarray]) -> None:
    """Raise FolderError unless the model has the arrays of parameters.py under PyTorch's names, in its layouts."""
    shapes = {name: tuple(array.transpose(AXES_TO_TORCH.get(array.ndim)).shape) for name, array in weights.items()}
    expected = {torch_name(name): (name, shape) for name, shape in shapes.items()}
    found = {name: tuple(each.shape) for name, each in model.state_dict().items() if not name.endswith(COUNTER)}
    for name, (canonical, shape) in expected.items():
        if name not in found:
            raise FolderError(f"{file}: the model lacks {name}, which is {canonical} of parameters.py; {_name(name)}")
        if found[name] != shape:
            remedy = "correct one of them; a kernel of parameters.py is (height, width, in, out) or (in, out)"
            problem = f"{name} has shape {found[name]}, and {canonical} of parameters.py means {shape}"
            raise FolderError(f"{file}: {problem}; {remedy}")
    if others := sorted(found.keys() - expected.keys()):
        remedy = "add them there under the layer's name with .kernel, .bias, .scale, .offset, .mean or .variance"
        raise FolderError(f"{file}: the model has {', '.join(others[:3])}, not in parameters.py; {remedy}")
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    for name, (canonical, _) in expected.items():
        if is_trainable(canonical) and name not in trained:
            raise FolderError(f"{file}: {name} needs no gradient; train all of the model, as the other families do")


def _name(name: str) -> str:
    return f"register the layer as {name.rpartition('.')[0]} or correct the name there"


def _call(file: str, problem: str, function: Callable, *values, **options):
    try:
        return function(*values, **options)
    except RefusedReluError as error:
        raise FolderError(f"{file}: {error}") from None
    except (Exception, SystemExit) as error:
        raise FolderError(f"{file} {problem}: {type(error).__name__}: {error}; correct it") from error
