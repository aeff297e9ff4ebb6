"""
Unfair protocols of published studies, which a study can switch on to measure their effect beside its own numbers.

`first_epoch_inside` and `eval_other_images` need no runs: the tables compute them from those of the study. The others
repeat the runs of the study's first variant in single frameworks, with the protocol's name in place of the variant's.
Random images are neither evaluated nor augmented, so these protocols leave them out.
"""

from typing import TYPE_CHECKING

from howmanygpus.plan.adaptive.keys import RULES, is_adaptive
from howmanygpus.plan.config.errors import ConfigError, refuse, suggest
from howmanygpus.plan.config.images import CROPS, check_crops, find_image_shape
from howmanygpus.plan.networks import list_arrays
from howmanygpus.plan.runs import Run
from howmanygpus.plan.study.checks import check_shape
from howmanygpus.plan.study.published import describe_protocols
from howmanygpus.train.spec import RANDOM_INPUTS

if TYPE_CHECKING:
    from howmanygpus.plan.study.study import Study

FIRST_EPOCH, OTHER_IMAGES = "first_epoch_inside", "eval_other_images"
BATCH_STATISTICS, AUGMENTATION = "eval_batch_statistics", "own_augmentation"
FULL_BATCHES = "full_batches"


def list_overrides(protocols: dict) -> dict[str, dict[str, dict]]:
    """Return the training settings that each protocol with runs of its own changes, by framework.

    protocols: the study's key of that name, complete.
    """
    by_batch = {framework: {"eval_batchnorm": "batch"} for framework in protocols[BATCH_STATISTICS]}
    changes = {BATCH_STATISTICS: by_batch, AUGMENTATION: protocols[AUGMENTATION]}
    return {name: by_framework for name, by_framework in changes.items() if by_framework}


def complete_overrides(protocols: dict, first: dict) -> dict[str, dict[str, dict]]:
    """Return the complete settings by protocol and framework. first: those of the study's first variant."""
    return {
        name: {framework: first | own for framework, own in by_framework.items()}
        for name, by_framework in list_overrides(protocols).items()
    }


def count_evaluated(study: "Study", run: Run) -> int | None:
    """Return how many test images `eval_other_images` evaluates after a run, the first of the split.

    None if the run is compared with nothing: its framework evaluates all, or it is not of the first variant.
    """
    rule = study.config["protocols"][OTHER_IMAGES].get(run.framework)
    if rule is None or run.variant != next(iter(study.variants)) or run.input in RANDOM_INPUTS:
        return None
    num_test, settings = study.description.num_test, study.settings_of(run)
    if rule != FULL_BATCHES:
        return rule
    devices = run.num_gpus if settings["eval_devices"] == "all" else 1
    batch = devices * (settings["eval_batch_size"] or run.per_device_batch_size)
    return num_test // batch * batch


def check_names(study: "Study") -> None:
    """Raise ConfigError for frameworks that the study lacks, and for protocols that it cannot have."""
    place, protocols = f"{study.place}.protocols", study.config["protocols"]
    for name in (OTHER_IMAGES, BATCH_STATISTICS, AUGMENTATION):
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
            rule = next(key for key in RULES if study.config[key] is not None)
            problem = f"repeats runs of the study, and {rule} may leave them out"
            raise refuse(f"{place}.{name}", list(by_framework), problem, "make a study of its own for it")
    if protocols[BATCH_STATISTICS]:
        _check_batchnorm(study, f"{place}.{BATCH_STATISTICS}")
    _check_augmentation(study, f"{place}.{AUGMENTATION}")


def _check_batchnorm(study: "Study", place: str) -> None:
    given, model = study.config["protocols"][BATCH_STATISTICS], study.config["model"]
    if study.own_model is not None:
        problem = f"has no effect on {model}: a network of yours decides itself how it evaluates"
        raise refuse(place, given, problem, "choose a network of the workflow or remove it")
    shape = find_image_shape(next(iter(study.variants.values())), study.description.image_shape)
    num_classes = study.description.num_classes
    if not any(name.endswith(".variance") for name in list_arrays(*study.network, shape, num_classes)):
        problem = f"has no effect on {model}, which has no BatchNorm"
        raise refuse(place, given, problem, "choose a network that has, or remove it")


def _check_augmentation(study: "Study", place: str) -> None:
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


def check_evaluations(study: "Study") -> None:
    """Raise ConfigError for other images in evaluation that are all images, or none."""
    num_test, rules = study.description.num_test, study.config["protocols"][OTHER_IMAGES]
    for framework, rule in rules.items():
        place = f"{study.place}.protocols.{OTHER_IMAGES}.{framework}"
        counts = {count_evaluated(study, run) for run in study.runs if run.framework == framework} - {None}
        if 0 in counts:
            problem = f"leaves none of the {num_test} test images, which fill no batch"
            raise refuse(place, rule, problem, "give a number of images or lower eval_batch_size")
        if rule != FULL_BATCHES and rule >= num_test:
            problem = f"has no effect: there are {num_test} test images"
            raise refuse(place, rule, problem, f"give less than {num_test} or remove it")
        if counts == {num_test}:
            problem = f"has no effect: the {num_test} test images fill all batches"
            raise refuse(place, rule, problem, "give a number of images, change eval_batch_size or remove it")
        if not counts:
            raise ConfigError(f"{place}: no run of {framework} is evaluated; remove it")


def describe(study: "Study") -> dict:
    """Return the facts about protocols that tables need, by the path of each run; they are part of the plan's file.

    protocol: the one that a run follows. evaluates: how many images `eval_other_images` evaluates after it.
    """
    found: dict[str, dict] = {}
    for run in study.runs:
        if run.variant in study.unfair:
            found[run.path] = {"protocol": run.variant}
        elif (count := count_evaluated(study, run)) is not None:
            found[run.path] = {"evaluates": count}
    return found
