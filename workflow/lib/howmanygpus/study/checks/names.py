"""Checks the names in a study, and settings that exclude each other; they are known before anything is looked up."""

from pathlib import Path

from howmanygpus.config.errors import ConfigError, Errors, refuse, suggest
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.config.learning import check_learning
from howmanygpus.study.config.metrics import check_quality
from howmanygpus.study.fill import FilledStudy
from howmanygpus.study.loaders import check_loaders
from howmanygpus.study.networks import list_models, resolve_family_file
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
    for framework in frameworks:
        family_file = resolve_family_file(model, FRAMEWORKS[framework].family)
        if not family_file.exists():
            remedy = f"write models/{model}/{family_file.name} or leave {framework} out"
            raise refuse(place, model, f"is not written for {framework}", remedy)
