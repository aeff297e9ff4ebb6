"""A user's own PyTorch model: an nn.Module from normalised images (batch, channels, height, width) to logits."""

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from howmanygpus.measure.frameworks.own_model_checks import check_logits, check_repeats, check_same_model, draw_images
from howmanygpus.measure.models.own import OwnModelError, build_from_file, describe, name_role
from howmanygpus.measure.spec import RunSpec

Shape = tuple[int, int, int]


def build(path: str, image_shape: Shape, num_classes: int, seed: int, options: dict) -> nn.Module:
    """Build the model with PyTorch's generator at `seed`. Layers that learn their size from data see zeros once."""
    torch.manual_seed(seed)
    model = build_from_file(path, image_shape, num_classes, **options)
    if not isinstance(model, nn.Module):
        raise OwnModelError(f"{path}: build returned {type(model).__name__}; return a torch.nn.Module")
    if any(map(is_lazy, model.parameters())):
        _predict(path, model.eval(), torch.zeros_like(_draw(image_shape)))
    return model.train()


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
    tensors = map_tensors(module)
    if tensors.keys() != weights.keys():
        raise ValueError(f"weights and model differ in {sorted(tensors.keys() ^ weights.keys())}")
    for name, tensor in tensors.items():
        if tensor.shape != weights[name].shape:
            raise ValueError(f"{name} has shape {weights[name].shape}, the model's {tuple(tensor.shape)}")
        tensor.copy_(torch.from_numpy(weights[name]))


def read_weights(module: nn.Module, names) -> dict[str, np.ndarray]:
    tensors = map_tensors(module)
    return {name: tensors[name].detach().cpu().float().contiguous().numpy().copy() for name in names}


def initialize(
    path: str, image_shape: Shape, num_classes: int, seed: int, options: dict
) -> tuple[dict[str, np.ndarray], bool]:
    """Check the model; return its initial weights, and whether training draws random numbers, as dropout does."""
    model = build(path, image_shape, num_classes, seed, options)
    tensors = map_tensors(model)
    weights = read_weights(model, tensors)
    check_same_model(path, tensors, map_tensors(build(path, image_shape, num_classes, seed, options)))
    _check_evaluation(path, model.eval(), image_shape, num_classes)
    return weights, _check_training(path, model.train(), image_shape, num_classes)


def _check_evaluation(path: str, model: nn.Module, image_shape: Shape, num_classes: int) -> None:
    first, again = (_predict(path, model, _draw(image_shape)) for _ in range(2))
    for logits in (first, again):
        _check_logits(path, logits, num_classes)
    check_repeats(path, first.numpy(), again.numpy())


def _check_training(path: str, model: nn.Module, image_shape: Shape, num_classes: int) -> bool:
    images, outputs = _draw(image_shape), []
    for seed in (0, 1):
        torch.manual_seed(seed)
        try:
            outputs.append(model(images))
        except Exception as error:
            raise OwnModelError(f"{path}: the model in training raised {describe(error)}; correct it") from error
        _check_logits(path, outputs[-1], num_classes)
    if outputs[0].requires_grad:
        outputs[0].sum().backward()
    parameters = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    if not parameters:
        raise OwnModelError(f"{path}: the model has no parameter to train; register layers as attributes of the module")
    if unused := [name for name, each in parameters if each.grad is None]:
        remedy = "remove them or set requires_grad = False, because devices wait for the gradients of all parameters"
        raise OwnModelError(f"{path}: {', '.join(unused[:3])} take no part in the logits; {remedy}")
    return not torch.equal(*outputs)


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
