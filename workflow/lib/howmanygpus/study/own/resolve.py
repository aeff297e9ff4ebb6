"""Takes the user's own model of a study, whether it is one file or a folder."""

from pathlib import Path
from typing import Any

from howmanygpus.config.errors import refuse
from howmanygpus.config.files import expand_path
from howmanygpus.measure.models.options import fill_options
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.study.networks import choose_options, list_models
from howmanygpus.study.own.folder import ModelFolder, read_folder, read_model_folder
from howmanygpus.study.own.model import OwnModel, check_frameworks, is_own, read_own_model


def resolve_own_model(
    place: str, place_of_options: str, config: dict
) -> tuple[OwnModel | ModelFolder | None, dict[str, Any]]:
    """Return the user's model if the study's `model` is a path, and the keys that it replaces. Raises ConfigError.

    Its name replaces the path. The options of a folder become those of all its OPTIONS, so that its functions need no
    defaults.
    """
    given, family, options = config["model"], config["model_family"], config["model_options"]
    known = [name for name in config["frameworks"] if name in FRAMEWORKS]
    is_folder = is_own(given) and Path(expand_path(given, f"{place}.model")).is_dir()
    if family is not None and (is_folder or not is_own(given)):
        what = "the folder is for several families" if is_folder else f"the model {given} is no file of yours"
        raise refuse(f"{place}.model_family", family, f"is given, but {what}", "leave the key out")
    if not is_own(given):
        return None, {}
    if is_folder:
        folder = read_model_folder(place, given, list_models(), known)
        families = list(dict.fromkeys(FRAMEWORKS[name].family for name in ("pytorch_ddp", *known)))
        rules = read_folder(place, given, folder, families)
        filled = fill_options(rules, choose_options(place_of_options, folder.name, options))
        return folder, {"model": folder.name, "model_options": filled}
    model = read_own_model(place, place_of_options, given, family, options, list_models())
    check_frameworks(place, model, known)
    return model, {"model": model.name}


def check_names(models: list[tuple[str, OwnModel | ModelFolder]]) -> None:
    """Raise ConfigError for two models of the same name. models: each with the place of its study."""
    first: dict[str, OwnModel | ModelFolder] = {}
    for place, model in models:
        other = first.setdefault(model.name, model)
        if Path(model.path).resolve() != Path(other.path).resolve():
            problem = f"has the same name as {other.path}, so that files and tables could not tell them apart"
            raise refuse(f"{place}.model", model.path, problem, "rename one of them")
