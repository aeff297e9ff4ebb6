"""The network that a study trains: its model, and the model's options that the study sets."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

from howmanygpus.config.errors import ConfigError, check_schema, refuse

PACKAGE = "howmanygpus.measure.models"
IMAGENET = "imagenet"
"""Value of a study's `init`, for the weights that are published for its network."""
LARGEST_IMAGE = 2**14
"""Height of the largest images at which it is looked whether a network leaves anything of them."""
MODELS = Path(__file__).resolve().parents[1] / "measure" / "models"


def list_models() -> list[str]:
    return sorted(path.parent.name for path in MODELS.glob("*/parameters.py"))


def resolve_family_file(model: str, family: str) -> Path:
    """Return the path of the file that builds a model in a family. It exists if the model is written for the family."""
    return MODELS / model / f"{family}.py"


def read_model(model: str) -> ModuleType:
    """Return the module with the model's OPTIONS, if it has any, and its canonical parameters."""
    return importlib.import_module(f"{PACKAGE}.{model}.parameters")


def read_published(model: str) -> ModuleType:
    """Return the module that names and converts the model's published weights."""
    return importlib.import_module(f"{PACKAGE}.{model}.published")


def choose_options(place: str, model: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that differ from the model's own, in the model's order.

    place: where the config gives the options. Raises ConfigError for an option that the model lacks, and for a value
    that it does not take.
    """
    rules: dict[str, dict] = getattr(read_model(model), "OPTIONS", {})
    if given and not rules:
        raise refuse(place, given, f"is given, but {model} has no options", "leave the key out")
    # The schema also describes everything above the options, so that errors name the whole place.
    schema: dict[str, Any] = {"type": "object", "properties": rules, "additionalProperties": False}
    document: dict[str, Any] = given
    for part in reversed(place.split(".")):
        schema, document = {"type": "object", "properties": {part: schema}}, {part: document}
    check_schema(document, schema, root="config")
    return {name: given[name] for name, rule in rules.items() if name in given and given[name] != rule["default"]}


def import_pretrained(model: str) -> ModuleType | None:
    """Return the module that names and converts the model's pretrained weights; None without such weights."""
    return read_published(model) if (MODELS / model / "published.py").exists() else None


def list_pretrained() -> list[str]:
    return sorted(path.parent.name for path in MODELS.glob("*/published.py") if path.parent.name in list_models())


def choose_normalization(settings: dict[str, Any], model: str) -> str:
    """Return the normalization of a run's images. settings: its keys `init` and `normalization`."""
    if settings["normalization"] is not None:
        return settings["normalization"]
    return read_published(model).NORMALIZATION if settings["init"] == IMAGENET else "data"


def name_network(model: str, options: dict[str, Any]) -> str:
    """Return the part of file names that distinguishes this network, for example `resnet18-blocks1-1-width8`."""
    words = [model]
    for name, value in options.items():
        words.append(name + "-".join(map(str, value if isinstance(value, list) else [value])))
    return "-".join(words)


def check_image_size(
    place: str, model: str, options: dict[str, Any], height: int, width: int, cropped: str = ""
) -> None:
    """Raise ConfigError for images that are too small for the network's strides.

    height, width: of the network's input. cropped: place of the key that crops the images to this size.
    """
    if _compute_smallest_map(model, options, height, width) != 0:
        return
    sizes = range(1, LARGEST_IMAGE + 1)
    smallest = next((size for size in sizes if _accepts_size(model, options, size)), None)
    given, take = (f", to which {cropped} crops them", "crop to") if cropped else ("", "take images of")
    problem, shorter = f"leaves nothing of images of {height}x{width} pixels{given}", "make the network shorter by"
    if smallest is None:
        problem += f", nor of any up to {LARGEST_IMAGE}x{LARGEST_IMAGE}"
        raise refuse(f"{place}.model", model, problem, f"{shorter} model_options")
    remedy = f"{take} at least {smallest}x{smallest}, or {shorter} model_options"
    raise refuse(f"{place}.model", model, problem, remedy)


def check_statistics(
    place: str, model: str, options: dict[str, Any], image_shape: tuple[int, int, int], batch_size: int
) -> None:
    """Raise ConfigError for batches in which BatchNorm sees a single value per channel, which has no variance.

    batch_size: the images whose statistics are taken together.
    """
    height, width, _ = image_shape
    names = list_arrays(model, options, image_shape, 1)
    has_statistics = any(name.endswith(".variance") for name in names)
    if has_statistics and batch_size == 1 and _compute_smallest_map(model, options, height, width) == 1:
        problem = f"leaves {model} one value per channel to normalise, because its last images have one pixel"
        raise ConfigError(f"{place}.per_device_batch_size: 1 {problem}; give at least 2, or take larger images")


def list_arrays(model: str, options: dict[str, Any], image_shape: tuple[int, int, int], num_classes: int) -> list[str]:
    """Return the canonical names of a network's arrays."""
    return list(read_model(model).parameters(image_shape, num_classes, **options))


def _accepts_size(model: str, options: dict[str, Any], size: int) -> bool:
    """Whether the network takes images of this size. A user's function may raise for sizes that no study has."""
    try:
        return bool(_compute_smallest_map(model, options, size, size))
    except Exception:
        return False


def _compute_smallest_map(model: str, options: dict[str, Any], height: int, width: int) -> int | None:
    """Return the number of pixels of the smallest feature map; None if the model takes images of any size."""
    find = getattr(read_model(model), "smallest_map", None)
    return find(height, **options) * find(width, **options) if find else None
