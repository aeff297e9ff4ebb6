"""A user's own PyTorch model: an nn.Module from normalised images (batch, channels, height, width) to logits."""

import random
from collections.abc import Iterable

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from howmanygpus.measure.frameworks.own_model_checks import (
    NUM_REPEATS,
    REDUCED,
    check_evaluation,
    check_logits,
    check_same_model,
    check_same_network,
    draw_images,
)
from howmanygpus.measure.models.own import (
    OwnModelError,
    build_from_file,
    describe,
    name_role,
    read_generators,
    seed_generators,
)
from howmanygpus.measure.spec import RunSpec

Shape = tuple[int, int, int]


def build(path: str, image_shape: Shape, num_classes: int, seed: int, options: dict) -> nn.Module:
    """Build the model with all generators at `seed`. Layers that learn their size from data see zeros once."""
    seed_all(seed)
    model = build_from_file(path, image_shape, num_classes, **options)
    if not isinstance(model, nn.Module):
        raise OwnModelError(f"{path}: build returned {type(model).__name__}; return a torch.nn.Module")
    if any(map(is_lazy, model.parameters())):
        _predict(path, model.eval(), torch.zeros_like(_draw(image_shape)))
    _copy_expanded(model)
    return model.train()


def seed_all(seed: int) -> None:
    """Seed the generators of PyTorch, Python and numpy."""
    torch.manual_seed(seed)
    seed_generators(seed)


def _copy_expanded(model: nn.Module) -> None:
    """Give expanded tensors, several of whose elements are one number in memory, memory of their own to be written."""
    dense = [each for each in (*model.parameters(), *model.buffers()) if each.layout == torch.strided]
    for tensor in dense:
        if tensor.untyped_storage().nbytes() < tensor.numel() * tensor.element_size():
            tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)


def build_for_run(spec: RunSpec, image_shape: Shape, num_classes: int) -> nn.Module:
    assert spec.model_file is not None
    model = build(spec.model_file, image_shape, num_classes, spec.seed, spec.model_options)
    return nn.SyncBatchNorm.convert_sync_batchnorm(model) if spec.batchnorm == "synchronized" else model


def map_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return all arrays of numbers of the model's state by canonical name; counters are left out."""
    trained = {name for name, each in module.named_parameters(remove_duplicate=False) if each.requires_grad}
    return {
        f"{name}{name_role(name in trained, tensor.ndim)}": tensor
        for name, tensor in module.state_dict().items()
        if tensor.is_floating_point()
    }


def torch_name(canonical_name: str) -> str:
    return canonical_name.rpartition(".")[0]


@torch.no_grad()
def load_weights(module: nn.Module, weights: dict[str, np.ndarray]) -> None:
    """Copy weights in. Raises ValueError that names an array that does not fit."""
    tensors = map_tensors(module)
    if tensors.keys() != weights.keys():
        raise ValueError(f"weights and model differ in {sorted(tensors.keys() ^ weights.keys())}")
    for name, tensor in tensors.items():
        if tensor.shape != weights[name].shape:
            raise ValueError(f"{name} has shape {weights[name].shape}, the model's {tuple(tensor.shape)}")
        try:
            tensor.copy_(torch.from_numpy(weights[name]))
        except RuntimeError as error:
            raise ValueError(f"{name} cannot be written: {error}") from error


def read_weights(module: nn.Module, names) -> dict[str, np.ndarray]:
    tensors = map_tensors(module)
    return {name: tensors[name].detach().cpu().float().contiguous().numpy().copy() for name in names}


def initialize(
    path: str, image_shape: Shape, num_classes: int, seed: int, options: dict, precisions: Iterable[str] = ()
) -> tuple[dict[str, np.ndarray], bool]:
    """Check the model; return its initial weights, and whether training draws random numbers, as dropout does.

    precisions: mixed ones in which the model must be able to train on CPUs.
    """
    model, other = (build(path, image_shape, num_classes, seed, options) for _ in range(2))
    _check_arrays(path, model)
    tensors = map_tensors(model)
    weights = read_weights(model, tensors)
    check_same_model(path, tensors, map_tensors(other))
    try:
        load_weights(other, weights)
    except ValueError as error:
        remedy = "make it a plain tensor with memory of its own, for example by .clone()"
        raise OwnModelError(f"{path}: the stored weights cannot be loaded: {error}; {remedy}") from error
    evaluated, again = (_check_evaluation(path, each.eval(), image_shape, num_classes) for each in (model, other))
    check_same_network(path, "evaluation", evaluated, again)
    trained, draws = _check_training(path, model.train(), image_shape, num_classes)
    if not draws:
        again, _ = _check_training(path, other.train(), image_shape, num_classes)
        check_same_network(path, "training", trained, again)
    for precision in precisions:
        _check_precision(path, model, _draw(image_shape), precision)
    return weights, draws


def _check_arrays(path: str, model: nn.Module) -> None:
    """Raise OwnModelError for arrays that cannot be stored, and for parameters that no framework would keep so."""
    for name, tensor in model.state_dict().items():
        if tensor.layout != torch.strided:
            remedy = "make it dense, or a buffer with persistent=False"
            raise OwnModelError(f"{path}: {name} is sparse, and cannot be stored with the weights; {remedy}")
    for name, each in model.named_parameters():
        if each.requires_grad and each.dtype != torch.float32:
            remedy = "keep parameters in float32, because the study's `precision` chooses the format of computations"
            if each.is_complex():
                remedy = "make it a float32 parameter with a last axis of 2 and use torch.view_as_complex in forward"
            raise OwnModelError(f"{path}: the parameter {name} is {str(each.dtype).removeprefix('torch.')}; {remedy}")


def _check_evaluation(path: str, model: nn.Module, image_shape: Shape, num_classes: int) -> np.ndarray:
    def predict(scale: float) -> np.ndarray:
        logits = _predict(path, model, scale * _draw(image_shape))
        _check_logits(path, logits, num_classes)
        return logits.numpy()

    return check_evaluation(path, predict, lambda: _read_states(model))


def _check_training(path: str, model: nn.Module, image_shape: Shape, num_classes: int) -> tuple[np.ndarray, bool]:
    """Return the outputs in training, and whether the model draws random numbers there, however rarely they matter."""
    parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
    if not parameters:
        raise OwnModelError(f"{path}: the model has no parameter to train; register layers as attributes of the module")
    images, draws = _draw(image_shape), False
    state = {name: each.clone() for name, each in model.state_dict().items()}
    outputs: list[torch.Tensor] = []
    while len(outputs) < (NUM_REPEATS if draws else 2):
        # Outputs may depend on statistics that training changes.
        model.load_state_dict(state)
        seed_all(len(outputs))
        before = _read_states(model)
        outputs.append(_train(path, model, images))
        draws |= _read_states(model) != before
        _check_logits(path, outputs[-1], num_classes)
        model.zero_grad(set_to_none=True)
        if outputs[-1].requires_grad:
            outputs[-1].sum().backward()
        if unused := [name for name, each in parameters.items() if each.grad is None]:
            _refuse_unused(path, unused, in_some_steps=draws)
        draws |= not torch.equal(outputs[0], outputs[-1])
    return outputs[0].detach().numpy(), draws


def _refuse_unused(path: str, unused: list[str], in_some_steps: bool) -> None:
    why = "because devices wait for the gradients of all parameters"
    instead = "multiply what they compute by zero, instead of leaving it out"
    problem, remedy = "take no part in the logits", "remove them, or set requires_grad = False"
    remedy += f", or, if the images decide which take part, {instead}"
    if in_some_steps:
        problem, remedy = f"{problem} in some steps, in which a draw leaves them out", instead
    raise OwnModelError(f"{path}: {', '.join(unused[:3])} {problem}; {remedy}, {why}")


def _train(path: str, model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    try:
        return model(images)
    except Exception as error:
        raise OwnModelError(f"{path}: the model in training raised {describe(error)}; correct it") from error


def _check_precision(path: str, model: nn.Module, images: torch.Tensor, precision: str) -> None:
    """Raise OwnModelError if the forward or the backward pass fails under autocast."""
    try:
        with torch.autocast("cpu", getattr(torch, REDUCED[precision])):
            logits = model(images)
        logits.float().sum().backward()
    except Exception as error:
        remedy = "use torch.autocast(..., enabled=False) around it, or leave the precision out of the study"
        problem = f"the model in training in {precision}, by autocast, raised {describe(error)}"
        raise OwnModelError(f"{path}: {problem}; {remedy}") from error


def _read_states(model: nn.Module) -> tuple:
    """Return the states of all generators from which the model may draw: the global ones and those of its modules."""
    kept = [value for module in model.modules() for value in vars(module).values()]
    return (
        torch.get_rng_state().tolist(),
        read_generators(),
        [each.get_state().tolist() for each in kept if isinstance(each, torch.Generator)],
        [str(each.bit_generator.state) for each in kept if isinstance(each, np.random.Generator)],
        [each.getstate() for each in kept if isinstance(each, random.Random)],
    )


def _draw(image_shape: Shape) -> torch.Tensor:
    return torch.from_numpy(draw_images(image_shape)).permute(0, 3, 1, 2).contiguous()


@torch.no_grad()
def _predict(path: str, model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    try:
        return model(images)
    except Exception as error:
        shape = "(batch, channels, height, width)"
        problem = f"the model raised {describe(error)} for images {shape} of shape {tuple(images.shape)}"
        raise OwnModelError(f"{path}: {problem}; correct it") from error


def _check_logits(path: str, logits, num_classes: int) -> None:
    if not isinstance(logits, torch.Tensor):
        raise OwnModelError(f"{path}: the model returned {type(logits).__name__}; return one tensor of logits")
    check_logits(path, logits.detach().numpy(), num_classes)
