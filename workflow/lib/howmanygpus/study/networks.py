"""The network that a study trains: its model, and the model's options that the study sets."""

from pathlib import Path
from typing import Any

from howmanygpus.config.errors import ConfigError, check_schema, refuse
from howmanygpus.measure.models.networks import import_network, lay_out, list_draws
from howmanygpus.measure.models.published import Published

IMAGENET = "imagenet"
"""Value of a study's `init`, for the weights that are published for its network."""
LARGEST_IMAGE = 2**14
"""Height of the largest images at which it is looked whether a network leaves anything of them."""
NETWORKS = Path(__file__).resolve().parents[1] / "measure" / "networks"


def list_models() -> list[str]:
    return sorted(path.stem for path in NETWORKS.glob("*.py") if path.stem != "__init__")


def read_published(model: str) -> Published | None:
    """Return how the weights that are published for a model are converted; None without such weights."""
    return getattr(import_network(model), "PUBLISHED", None)


def choose_options(place: str, model: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that differ from the model's own, in the model's order.

    place: where the config gives the options. Raises ConfigError for an option that the model lacks, and for a value
    that it does not take.
    """
    rules: dict[str, dict] = getattr(import_network(model), "OPTIONS", {})
    if given and not rules:
        raise refuse(place, given, f"is given, but {model} has no options", "leave the key out")
    # The schema also describes everything above the options, so that errors name the whole place.
    schema: dict[str, Any] = {"type": "object", "properties": rules, "additionalProperties": False}
    document: dict[str, Any] = given
    for part in reversed(place.split(".")):
        schema, document = {"type": "object", "properties": {part: schema}}, {part: document}
    check_schema(document, schema, root="config")
    return {name: given[name] for name, rule in rules.items() if name in given and given[name] != rule["default"]}


def list_pretrained() -> list[str]:
    return [model for model in list_models() if read_published(model)]


def choose_normalization(settings: dict[str, Any], model: str) -> str:
    """Return the normalization of a run's images. settings: its keys `init` and `normalization`."""
    if settings["normalization"] is not None:
        return settings["normalization"]
    published = read_published(model) if settings["init"] == IMAGENET else None
    return published.normalization if published else "data"


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
    return list(list_draws(model, image_shape, num_classes, **options))


def _accepts_size(model: str, options: dict[str, Any], size: int) -> bool:
    """Whether the network takes images of this size. A user's function may raise for sizes that no study has."""
    try:
        return bool(_compute_smallest_map(model, options, size, size))
    except Exception:
        return False


def _compute_smallest_map(model: str, options: dict[str, Any], height: int, width: int) -> int | None:
    """Return the number of pixels of the smallest feature map; None if the model takes images of any size."""
    network = import_network(model)
    if hasattr(network, "lay_out"):
        return lay_out(model, 1, **options).count_smallest_map((height, width, 3))
    find = getattr(network, "smallest_map", None)
    return find(height, **options) * find(width, **options) if find else None
