"""Checks the initial weights of a study's runs, and the normalisation of images that they require."""

from typing import Any

from safetensors import SafetensorError, safe_open

from howmanygpus.config.errors import refuse
from howmanygpus.measure.models.conversion import IMAGE_SHAPE, NUM_CLASSES
from howmanygpus.measure.models.networks import list_draws
from howmanygpus.prepare.weights import MisfitError, list_new_arrays
from howmanygpus.study.config.images import compute_image_shape
from howmanygpus.study.config.places import locate
from howmanygpus.study.initial_weights import InitialWeights
from howmanygpus.study.networks import IMAGENET, list_pretrained, read_published
from howmanygpus.study.study import Study

FREE_OPTIONS = ("dropout",)
"""Options of models that published weights do not depend on, because they change nothing but training."""
DTYPE = "F32"
"""Type of all arrays, as files of safetensors name it."""


def check(study: Study) -> None:
    """Raise ConfigError for weights of another network, and for a normalisation of other channels."""
    _check_normalization(study)
    stored = study.description.image_shape
    for variant, settings in study.variants.items():
        place = locate("init", study.place, variant, study.config["variants"])
        _check_weights_fit(place, study, study.starts[variant], compute_image_shape(settings, stored))
    first = next(iter(study.variants))
    place = locate("init", study.place, first, study.config["variants"])
    for protocol, by_framework in study.unfair.items():
        for framework, settings in by_framework.items():
            shape, whose = compute_image_shape(settings, stored), f"protocols.{protocol}.{framework}"
            _check_weights_fit(place, study, study.starts[first], shape, whose)


def _check_weights_fit(
    place: str, study: Study, start: InitialWeights, shape: tuple[int, int, int], whose: str = ""
) -> None:
    """shape: of the images that the network gets. whose: the place of an augmentation that gives them this shape."""
    if start.word == IMAGENET:
        _check_published(place, study, shape, whose)
    elif start.path:
        _check_file(place, study, start, shape, whose)


def _check_published(place: str, study: Study, shape: tuple[int, int, int], whose: str) -> None:
    model, options = study.network
    if study.own_model is not None:
        remedy = "load weights in its function build, or give the path of a file with its arrays"
        raise refuse(
            place, IMAGENET, f"is for the workflow's own networks, and {study.own_model.path} is yours", remedy
        )
    if read_published(model) is None:
        remedy = f"choose from {', '.join(list_pretrained())}, write random, or give a file of yours"
        raise refuse(place, IMAGENET, f"has no weights for {model}, for which torchvision publishes none", remedy)
    for name in options:
        if name not in FREE_OPTIONS:
            problem = f"is for {model} with the options that it has by itself, and model_options.{name} differs"
            raise refuse(place, IMAGENET, problem, f"remove {name}, write random, or give a file of yours")
    if shape[2] != IMAGE_SHAPE[2]:
        problem = f"is for images of 3 channels, and those of {study.config['dataset']} have {shape[2]}"
        raise refuse(place, IMAGENET, problem, "prepare them with the option channels: 3, or write random")
    published = list_shapes(model, IMAGE_SHAPE, NUM_CLASSES)
    try:
        list_new_arrays(list_shapes(model, shape, study.description.num_classes, **options), published)
    except MisfitError as error:
        height, width = IMAGE_SHAPE[:2]
        other = f"those of {whose or 'this network'} have {shape[0]}x{shape[1]}"
        problem = f"is for images of {height}x{width} pixels, and {other}"
        remedy = f"write crop: [{height}, {width}], or prepare images of this size"
        raise refuse(place, IMAGENET, f"{problem}: it {error}", remedy) from None


def _check_file(place: str, study: Study, start: InitialWeights, shape: tuple[int, int, int], whose: str) -> None:
    """Check a user's file. Only names and shapes of the workflow's own networks are known before the first job."""
    try:
        with safe_open(start.path, framework="numpy") as file:
            arrays = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            types = {name: array.get_dtype() for name, array in arrays.items()}
            shapes = {name: tuple(array.get_shape()) for name, array in arrays.items()}
    except (SafetensorError, OSError) as error:
        raise refuse(place, start.word, f"cannot be read ({error})", "store the arrays by safetensors") from None
    if study.own_model is not None:
        return
    for name, dtype in types.items():
        if dtype != DTYPE:
            raise refuse(place, start.word, f"has {name} as {dtype}", "store all arrays as float32")
    model, options = study.network
    try:
        list_new_arrays(list_shapes(model, shape, study.description.num_classes, **options), shapes)
    except MisfitError as error:
        remedy = "take the names and layouts of the files that init: random writes below results/weights/"
        problem = f"is not for this {model}{f' with {whose}' if whose else ''}: it {error}"
        raise refuse(place, start.word, problem, remedy) from None


class _Outline:
    """Stands for a generator of random numbers and for what it draws, whose shape is then known without drawing."""

    def __init__(self, shape: tuple[int, ...] = ()):
        self.shape = shape

    def standard_normal(self, shape: tuple[int, ...]) -> "_Outline":
        return _Outline(shape)

    def __mul__(self, _: float) -> "_Outline":
        return self

    def astype(self, _: Any) -> "_Outline":
        return self


def list_shapes(
    model: str, image_shape: tuple[int, int, int], num_classes: int, **options: Any
) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array of a network, by its canonical name."""
    draws: dict[str, Any] = list_draws(model, image_shape, num_classes, **options)
    return {name: tuple(draw(_Outline()).shape) for name, draw in draws.items()}


def _check_normalization(study: Study) -> None:
    """Raise ConfigError for statistics of another number of channels than the images have."""
    if all(settings["normalization"] is None for settings in study.variants.values()):
        return
    # The module imports OpenCV, which takes a thirtieth of a large grid's dry run.
    from howmanygpus.measure.input.prepared import NORMALIZATIONS

    channels = study.description.image_shape[2]
    for variant, settings in study.variants.items():
        chosen = settings["normalization"]
        mean = NORMALIZATIONS[chosen][0] if chosen in NORMALIZATIONS else ()
        if isinstance(mean, tuple) and len(mean) not in (0, channels):
            place = locate("normalization", study.place, variant, study.config["variants"])
            problem = f"is for images of {len(mean)} channels, and those of {study.config['dataset']} have {channels}"
            raise refuse(place, chosen, problem, "write data, or prepare them with the option channels: 3")
