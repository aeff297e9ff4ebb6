"""The keys that make a study adaptive: their checks, and the study of probes that `train_best` needs."""

import math

from howmanygpus.config.errors import ConfigError, refuse
from howmanygpus.config.schema import study_defaults
from howmanygpus.measure.spec import RANDOM_INPUTS
from howmanygpus.study.largest.sizes import MAX

AUTO = "auto"
"""Value of `repeats` and `num_gpus` for a number that depends on the measurements or on the machine."""
CHOOSING = ("stop_below_efficiency", "budget_device_h", "train_best")
"""Keys that leave out configurations."""
REPEATING = ("repeats_precision", "repeats_limit")
"""Keys of `repeats: auto`."""
RULES = (*CHOOSING, "probe_steps", *REPEATING)
"""Keys that decide which runs are done. They change no run, and tables only through the runs."""
FOR_TRAINING = ("epochs", "steps", "repeats", "trace", "published", "deviations", "protocols", "diagnose", "predict")
"""Keys that a probe does not share with the runs that train."""
PROBE = "_probe"
"""Suffix of the name of a study of probes."""


def drop_rules(study: dict) -> dict:
    return {key: value for key, value in study.items() if key not in RULES}


def is_adaptive(study: dict) -> bool:
    return study.get("repeats") == AUTO or any(study.get(key) is not None for key in CHOOSING)


def count_repeats(study: dict) -> int:
    """Return the largest number of repeats that a configuration can have. study: complete."""
    return study["repeats_limit"] if study["repeats"] == AUTO else study["repeats"]


def split_probes(groups: dict[str, dict[str, dict]]) -> dict[str, dict[str, dict]]:
    """Return the studies to plan, with a study of probes before each one that trains only its best configurations.

    groups: as study.config.models.split_models returns them. The probes are runs of `probe_steps` steps, one for each
    configuration of the study. Raises ConfigError for keys that exclude each other.
    """
    taken = {name for studies in groups.values() for name in studies} | groups.keys()
    split: dict[str, dict[str, dict]] = {}
    for group, studies in groups.items():
        split[group] = {}
        for name, given in studies.items():
            check_rules(f"studies.{group}", given)
            if given.get("train_best") is not None:
                if f"{name}{PROBE}" in taken:
                    problem = f"makes a second study {name}{PROBE}"
                    raise refuse(f"studies.{group}.train_best", given["train_best"], problem, "rename one of them")
                split[group][f"{name}{PROBE}"] = _make_probes(given)
            split[group][name] = given
    return split


def _make_probes(given: dict) -> dict:
    """Return the study of the probes. Rules of `exclude` about later repeats are left out, since probes have one."""
    kept = {key: value for key, value in drop_rules(given).items() if key not in FOR_TRAINING}
    if "exclude" in kept:
        kept["exclude"] = [rule for rule in kept["exclude"] if rule.get("repeat", 1) == 1]
    # A few steps reach no threshold.
    quality = given.get("quality", {}) | {"thresholds": []}
    return kept | {"steps": given.get("probe_steps", study_defaults()["probe_steps"]), "quality": quality}


def check_rules(place: str, given: dict) -> None:
    """Raise ConfigError for rules that contradict each other or other keys of a study."""
    if given.get("train_best") is None and "probe_steps" in given:
        remedy = "add train_best or remove it"
        raise refuse(f"{place}.probe_steps", given["probe_steps"], "has no effect without train_best", remedy)
    if given.get("repeats") != AUTO and (unused := next((key for key in REPEATING if key in given), None)):
        remedy = f"write repeats: {AUTO} or remove it"
        raise refuse(f"{place}.{unused}", given[unused], "has no effect with a fixed number of repeats", remedy)
    named = next((key for key in CHOOSING if given.get(key) is not None), None)
    if named is None:
        return
    if given.get("scaling") == "both":
        remedy = "make one study of weak scaling and one of strong scaling"
        raise refuse(f"{place}.{named}", given[named], "needs curves that share no runs", remedy)
    if isinstance(given.get("num_nodes"), list) and len(given["num_nodes"]) > 1:
        problem = "needs curves that share no runs, and one device is on the curve of each number of nodes"
        remedy = f"make one study of each of {given['num_nodes']}"
        raise refuse(f"{place}.{named}", given[named], problem, remedy)
    if given.get("train_best") is not None:
        _check_probes(place, given)


def _check_probes(place: str, given: dict) -> None:
    if "program" in given:
        problem = "needs short runs, and a program alone knows how long it trains"
        raise refuse(f"{place}.train_best", given["train_best"], problem, "remove it, or make a study of short runs")
    filled = study_defaults() | given
    if not set(filled["inputs"]) - set(RANDOM_INPUTS):
        problem = "trains nothing, because random images reach no target"
        raise refuse(f"{place}.train_best", given["train_best"], problem, "add a real input, such as arrays")
    warmups = [variant.get("warmup_steps", filled["warmup_steps"]) for variant in filled["variants"].values()]
    if filled["probe_steps"] <= max(warmups):
        problem = f"leaves no step to measure after {max(warmups)} warmup_steps"
        raise refuse(f"{place}.probe_steps", filled["probe_steps"], problem, "raise it or lower warmup_steps")
    if MAX in filled["per_device_batch_size"] and (filled["epochs"] or math.inf) <= max(warmups):
        problem = f"can be another number for probes, since {filled['epochs']} epochs may be short of a measured step"
        remedy = f"train more epochs than the {max(warmups)} warmup_steps, or list numbers"
        raise refuse(f"{place}.per_device_batch_size", MAX, problem, remedy)
    if (filled["epochs"] is None) == (filled["steps"] is None):
        raise ConfigError(f"{place}: give exactly one of `epochs` and `steps`")
