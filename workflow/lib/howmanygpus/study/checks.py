"""Checks of a study that need its model, its images or its runs."""

from pathlib import Path

from howmanygpus.config.errors import ConfigError, Errors, refuse, suggest
from howmanygpus.config.findings import Finding
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.config.checks import check_seeds, locate, warn_about_batches, warn_about_workers
from howmanygpus.study.config.images import CROPS, check_crops, compute_image_shape
from howmanygpus.study.config.learning import check_learning, warn_about_learning
from howmanygpus.study.config.metrics import check_metric, check_quality
from howmanygpus.study.grid import check_layouts
from howmanygpus.study.loaders import check_inputs, check_loaders
from howmanygpus.study.networks import check_image_size, check_statistics, list_models, resolve_family_file
from howmanygpus.study.own.folder import ModelFolder, check_arrays
from howmanygpus.study.own.model import OwnModel
from howmanygpus.study.published import check_published
from howmanygpus.study.study import Study


def check_names(place: str, config: dict, variants: dict[str, dict], own_model: OwnModel | ModelFolder | None) -> None:
    """Raise ConfigError for unknown frameworks, models and metrics, and for settings that exclude each other.

    place: of the study in the config. config: complete. variants: the training settings of each.
    """
    errors = Errors()
    for position, framework in enumerate(config["frameworks"]):
        if framework not in FRAMEWORKS:
            remedy = suggest(framework, FRAMEWORKS)
            errors.add(refuse(f"{place}.frameworks[{position}]", framework, "is not a known framework", remedy))
    known = [framework for framework in config["frameworks"] if framework in FRAMEWORKS]
    if own_model is None:
        with errors.collect():
            _check_model(f"{place}.model", config["model"], known)
    with errors.collect():
        check_quality(f"{place}.quality", config["quality"])
    with errors.collect():
        check_published(place, config["published"])
    with errors.collect():
        check_loaders(place, variants, config["variants"])
    if known == config["frameworks"]:
        # It compares frameworks with these, so that a misspelt one would make others seem wrong.
        with errors.collect():
            check_learning(place, known, variants, config["variants"])
    if (config["epochs"] is None) == (config["steps"] is None):
        errors.add(ConfigError(f"{place}: give exactly one of `epochs` and `steps`"))
    errors.raise_all()


def _check_model(place: str, model: str, frameworks: list[str]) -> None:
    models = list_models()
    if model not in models:
        is_folder = Path(model).is_dir()
        remedy = f"write ./{model} for your own folder" if is_folder else suggest(model, models)
        raise refuse(place, model, "is not a known model", remedy)
    for framework in frameworks:
        family_file = resolve_family_file(model, FRAMEWORKS[framework].family)
        if not family_file.exists():
            remedy = f"write models/{model}/{family_file.name} or leave {framework} out"
            raise refuse(place, model, f"is not written for {framework}", remedy)


def check_data(study: Study) -> None:
    """Raise ConfigError if the images or labels of the data set do not fit the study."""
    source, shape = study.dataset_options["source"], study.description.image_shape
    check_inputs(f"{study.place}.inputs", study.config["inputs"], source, shape)
    check_labels(study)
    check_crops(study.place, study.variants, study.config["variants"], shape)
    check_shapes(study)


def check_labels(study: Study) -> None:
    """Raise ConfigError for a metric or label smoothing that the labels of the data set do not allow."""
    dataset, data = study.config["dataset"], study.description
    check_metric(f"{study.place}.quality.metric", study.config["quality"]["metric"], dataset, data)
    for variant, settings in study.variants.items():
        if data.multi_label and settings["label_smoothing"]:
            problem = f"is for one label an image, and an image of {dataset} has any number of labels"
            place = locate("label_smoothing", study.place, variant, study.config["variants"])
            raise refuse(place, settings["label_smoothing"], problem, "remove it")


def check_shapes(study: Study) -> None:
    """Raise ConfigError for images of a shape that the network does not take; unknown for a model in one file."""
    for variant, settings in study.variants.items():
        places = {key: locate(key, study.place, variant, study.config["variants"]) for key in CROPS}
        check_shape(study, settings, places)


def check_shape(study: Study, settings: dict, places: dict[str, str]) -> None:
    """Raise ConfigError if the network does not take images of the size that these settings give.

    settings: complete. places: of the keys that crop.
    """
    own, shape = study.own_model, compute_image_shape(settings, study.description.image_shape)
    if isinstance(own, ModelFolder):
        check_arrays(study.place, study.given_model, own, shape, study.description.num_classes, study.network[1])
    if not isinstance(own, OwnModel):
        cropped = next((places[key] for key in CROPS if settings[key]), "")
        check_image_size(study.place, *study.network, *shape[:2], cropped)


def check_runs(study: Study) -> None:
    """Raise ConfigError for layouts that the machine lacks, and for batches and steps that the data set cannot give."""
    check_layouts(study)
    check_seeds(study.place, study.config)
    check_independent(study)
    num_train, stored = study.description.num_train, study.description.image_shape
    unfair = [settings for by_framework in study.unfair.values() for settings in by_framework.values()]
    layouts = {(run.num_gpus, run.per_device_batch_size, study.accumulate(run)) for run in study.runs}
    for num_gpus, size, count in sorted(layouts):
        steps_per_epoch = num_train // (num_gpus * size * count)
        if steps_per_epoch == 0:
            times = f", accumulated {count} times," if count > 1 else ""
            raise refuse(
                f"{study.place}.per_device_batch_size",
                size,
                f"on {num_gpus} device{'s' * (num_gpus > 1)}{times} is more than the {num_train} training images",
                "lower it, accumulate or num_gpus" if count > 1 else "lower it or num_gpus",
            )
        for settings in [] if isinstance(study.own_model, OwnModel) else [*study.variants.values(), *unfair]:
            together = num_gpus if settings["batchnorm"] == "synchronized" and not settings["independent"] else 1
            check_statistics(study.place, *study.network, compute_image_shape(settings, stored), size * together)
        for variant, settings in study.variants.items():
            num_steps = settings["steps"] or settings["epochs"] * steps_per_epoch
            if num_steps <= settings["warmup_steps"]:
                raise refuse(
                    f"{study.place}.warmup_steps",
                    settings["warmup_steps"],
                    f"leaves no step to measure of the {num_steps} of variant {variant} with {num_gpus} x {size}",
                    "lower it or train longer",
                )


def check_independent(study: Study) -> None:
    """Raise ConfigError for independent runs whose batch would depend on the number of devices."""
    for variant, settings in study.variants.items():
        if settings["independent"] and study.config["scaling"] != "weak":
            place = locate("independent", study.place, variant, study.config["variants"])
            problem = (
                f"is the same run on each device, whose batch would change with scaling: {study.config['scaling']}"
            )
            raise refuse(place, True, problem, "write scaling: weak, or make a study of their own for these runs")


def warn_about_study(study: Study) -> list[Finding]:
    """Return each value that is possible, but probably a mistake."""
    known = {run.device: study.machine.device(run.device) for run in study.runs}
    devices = {name: device for name, device in known.items() if device.count}
    largest = max(study.global_batch_size(run) for run in study.runs)
    place, variants, given = study.place, study.variants, study.config["variants"]
    return [
        *warn_about_workers(place, variants, given, devices),
        *warn_about_batches(place, variants, given, study.description.num_test),
        *warn_about_learning(
            place, study.config["frameworks"], variants, given, study.description.num_train // largest
        ),
    ]
