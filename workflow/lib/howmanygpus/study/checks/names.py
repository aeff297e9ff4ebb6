"""Checks the names in a study, and settings that exclude each other; they are known before anything is looked up."""

from collections.abc import Iterable
from pathlib import Path

from howmanygpus.config.errors import ConfigError, Errors, refuse, suggest
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.config.learning import check_learning
from howmanygpus.study.config.metrics import check_quality
from howmanygpus.study.fill import FilledStudy
from howmanygpus.study.invalidation.code import list_missing_layers
from howmanygpus.study.loaders import check_loaders
from howmanygpus.study.networks import list_models
from howmanygpus.study.own.folder import ModelFolder
from howmanygpus.study.own.model import is_own
from howmanygpus.study.published import check_published


def check(study: FilledStudy) -> None:
    """Raise ConfigError for unknown frameworks, models and metrics, and for settings that exclude each other."""
    place, config, variants, errors = study.place, study.config, study.variants, Errors()
    for position, framework in enumerate(config["frameworks"]):
        if framework not in FRAMEWORKS:
            remedy = suggest(framework, FRAMEWORKS)
            errors.add(refuse(f"{place}.frameworks[{position}]", framework, "is not a known framework", remedy))
    known = [framework for framework in config["frameworks"] if framework in FRAMEWORKS]
    if not is_own(config["model"]):
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
    check_layers(place, model, frameworks)


def check_layers(place: str, model: str | ModelFolder, frameworks: Iterable[str]) -> None:
    """Raise ConfigError for a framework that lacks a layer of a network. Unknown frameworks are left out."""
    for framework in frameworks:
        family = FRAMEWORKS[framework].family if framework in FRAMEWORKS else ""
        if family and (missing := list_missing_layers(model, family)):
            problem = f"has layers that {framework} lacks: {', '.join(missing)}"
            remedy = f"write measure/frameworks/{family}/layers/{missing[0]}.py or leave {framework} out"
            raise refuse(place, model if isinstance(model, str) else model.path, problem, remedy)
