"""Checks the unfair protocols of a study."""

from howmanygpus.config.errors import refuse, suggest
from howmanygpus.measure.spec import RANDOM_INPUTS
from howmanygpus.registry import FIRST_STATISTICS as KEEP_FIRST
from howmanygpus.study.adaptive.keys import CHOOSING, is_adaptive
from howmanygpus.study.checks.data import check_shape
from howmanygpus.study.config.images import CROPS, check_crops, compute_image_shape
from howmanygpus.study.loaders import SHARED
from howmanygpus.study.networks import list_arrays
from howmanygpus.study.protocols import (
    AUGMENTATION,
    BATCH_STATISTICS,
    FIRST_STATISTICS,
    FROZEN_BATCHES,
    OTHER_IMAGES,
    SWITCHED,
    list_overrides,
)
from howmanygpus.study.published import describe_protocols
from howmanygpus.study.study import Study


def check(study: Study) -> None:
    """Raise ConfigError for frameworks that the study lacks, and for protocols that it cannot have."""
    place, protocols = f"{study.place}.protocols", study.config["protocols"]
    for name in (OTHER_IMAGES, *SWITCHED, AUGMENTATION):
        for framework in protocols[name]:
            if framework not in study.config["frameworks"]:
                remedy = suggest(framework, study.config["frameworks"])
                raise refuse(f"{place}.{name}", framework, "is not one of the study's frameworks", remedy)
        if protocols[name] and not set(study.config["inputs"]) - set(RANDOM_INPUTS):
            problem = "has no effect, because the study has only random images, which nobody evaluates or augments"
            raise refuse(f"{place}.{name}", protocols[name], problem, "add a real input, such as arrays, or remove it")
        if name in study.variants:
            raise refuse(f"{study.place}.variants", name, "is the name of a protocol", "rename the variant")
    for name, by_framework in list_overrides(protocols).items():
        if is_adaptive(study.config):
            rules = (key for key in CHOOSING if study.config[key] is not None)
            rule = next(rules, "repeats: auto")
            problem = f"repeats runs of the study, and {rule} may leave them out"
            raise refuse(f"{place}.{name}", list(by_framework), problem, "make a study of its own for it")
    for name in (BATCH_STATISTICS, FIRST_STATISTICS):
        if protocols[name]:
            _check_batchnorm(study, name, f"{place}.{name}")
    _check_first(study, f"{place}.{FIRST_STATISTICS}")
    _check_frozen(study, f"{place}.{FROZEN_BATCHES}")
    _check_augmentation(study, f"{place}.{AUGMENTATION}")


def _check_batchnorm(study: Study, name: str, place: str) -> None:
    given, model = study.config["protocols"][name], study.config["model"]
    if study.own_model is not None and name == FIRST_STATISTICS:
        return
    if study.own_model is not None:
        problem = f"has no effect on {model}: a network of yours decides itself how it evaluates"
        raise refuse(place, given, problem, "choose a network of the workflow or remove it")
    shape = compute_image_shape(next(iter(study.variants.values())), study.description.image_shape)
    num_classes = study.description.num_classes
    if not any(name.endswith(".variance") for name in list_arrays(*study.network, shape, num_classes)):
        problem = f"has no effect on {model}, which has no BatchNorm"
        raise refuse(place, given, problem, "choose a network that has, or remove it")


def _check_first(study: Study, place: str) -> None:
    """Raise ConfigError for a study in which all devices have the same running statistics, or only the first's."""
    given, config = study.config["protocols"][FIRST_STATISTICS], study.config
    if given and next(iter(study.variants.values()))["batchnorm"] != "local":
        raise refuse(place, given, "has no effect with synchronized BatchNorm", "set batchnorm: local or remove it")
    if given and max(config["num_gpus"]) == 1:
        raise refuse(place, given, "has no effect on one device", "add a device count to num_gpus or remove it")
    for framework in set(given).intersection(KEEP_FIRST):
        raise refuse(place, framework, "has no effect: it always evaluates so", "remove it")


def _check_frozen(study: Study, place: str) -> None:
    given, first = study.config["protocols"][FROZEN_BATCHES], next(iter(study.variants.values()))
    if given and first["loader"] != SHARED:
        problem = "is done by the shared loader, and the study's first variant has another"
        raise refuse(place, given, problem, "let a variant with loader: shared be the first, or remove it")


def _check_augmentation(study: Study, place: str) -> None:
    """Raise ConfigError for augmentations that change nothing, that images do not allow, or that nobody published."""
    given, first = study.config["protocols"][AUGMENTATION], next(iter(study.variants.values()))
    if given and AUGMENTATION not in describe_protocols(study.config["published"]):
        problem = "repeats what no published study that this one is set beside has done"
        if study.config["published"] is None:
            problem = "repeats a published study, and this one is set beside none"
        remedy = "give `published`, or make two studies to compare augmentations"
        raise refuse(place, given, problem, remedy)
    for framework, own in given.items():
        if all(first[key] == value for key, value in own.items()):
            problem = "has no effect: it is what the study does in every framework"
            raise refuse(f"{place}.{framework}", own, problem, "change it or remove it")
        check_crops(f"{place}.{framework}", {"": first | own}, {"": {}}, study.description.image_shape)
        check_shape(study, first | own, {key: f"{place}.{framework}.{key}" for key in CROPS})
