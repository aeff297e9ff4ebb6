"""Finds the paths in a study that only say where the user's files are."""

from typing import Any

from howmanygpus.plan.config.datasets import PLACES


def find_places(study: Any) -> dict[str, str]:
    """Return names of the user's model, files of weights and data, by the paths that the config gives.

    A program starts in the folder of its files, so that its paths are part of what it does.
    """
    if study.is_program:
        return {}
    options = study.dataset_options["options"]
    places = {options[key]: key for key in PLACES if isinstance(options.get(key), str)}
    places |= {study.given_model: study.config["model"]} if study.own_model else {}
    starts = {study.variants[variant]["init"]: start for variant, start in study.starts.items()}
    return places | {given: start.identity for given, start in starts.items() if start.path}
