"""Makes one study for each model of a study that lists several."""

from howmanygpus.config.errors import refuse
from howmanygpus.study.own.model import short_name


def split_models(studies: dict[str, dict]) -> dict[str, dict[str, dict]]:
    """Return the studies to plan, by the name of the study that the config gives.

    A study with a list of models becomes one study per model, named {study}_{model}. Raises ConfigError if a study has
    this name already.
    """
    groups: dict[str, dict[str, dict]] = {}
    taken = set(studies)
    for name, given in studies.items():
        if "program" in given:
            groups[name] = {name: given}
            continue
        models = given["model"] if isinstance(given["model"], list) else [given["model"]]
        _check_exclusions(f"studies.{name}", given, list(map(short_name, models)))
        if not isinstance(given["model"], list):
            groups[name] = {name: given}
            continue
        _check_options(f"studies.{name}", given, list(map(short_name, models)))
        groups[name] = {}
        for position, model in enumerate(models):
            full_name = f"{name}_{short_name(model)}"
            if full_name in taken:
                place, problem = f"studies.{name}.model[{position}]", f"makes a second study {full_name}"
                raise refuse(place, model, problem, "rename one of them")
            taken.add(full_name)
            groups[name][full_name] = given | {"model": model} | _select_exclusions(given, short_name(model))
            if "model_options" in given:
                groups[name][full_name]["model_options"] = given["model_options"].get(short_name(model), {})
    return groups


def _select_exclusions(given: dict, model: str) -> dict:
    """Return the study's key `exclude` with the entries that apply to a model, or nothing if the study has none."""
    if "exclude" not in given:
        return {}
    return {"exclude": [rule for rule in given["exclude"] if rule.get("model", model) == model]}


def _check_options(place: str, given: dict, models: list[str]) -> None:
    for model, options in given.get("model_options", {}).items():
        if model not in models:
            remedy = f"give the options of each model below its name, such as {{{models[0]}: {{...}}}}"
            raise refuse(f"{place}.model_options", model, "is no model of this study's list", remedy)
        if not isinstance(options, dict):
            raise refuse(f"{place}.model_options.{model}", options, "is not of type object", "write its keys below it")


def _check_exclusions(place: str, given: dict, models: list[str]) -> None:
    for position, rule in enumerate(given.get("exclude", [])):
        if rule.get("model", models[0]) not in models:
            raise refuse(f"{place}.exclude[{position}]", rule, "matches no run", "correct or remove it")
