"""Checks the quality metric of a study, by the constants of the metrics' modules; see report/metrics/__init__.py."""

import math
from pathlib import Path
from typing import Any

from howmanygpus.config.errors import refuse, suggest
from howmanygpus.prepare.sources import Description
from howmanygpus.self_description import list_modules, read_constants

METRICS = Path(__file__).resolve().parents[2] / "report" / "metrics"
SEVERAL, ONE = "several", "one"


def list_metrics() -> list[str]:
    """List the quality metrics by their files, since `plan` must not import `report`."""
    return list_modules(METRICS)


def read_constant(metric: str, name: str, default: Any = None) -> Any:
    return read_constants(METRICS / f"{metric}.py").get(name, default)


def read_range(metric: str) -> tuple[float, float]:
    """Return the lowest and the highest value of a metric."""
    lowest, highest = read_constant(metric, "RANGE", (None, None))
    return -math.inf if lowest is None else lowest, math.inf if highest is None else highest


def check_quality(place: str, quality: dict) -> None:
    """Raise ConfigError for an unknown metric, or for thresholds or a margin that it cannot have."""
    metric, known = quality["metric"], list_metrics()
    if metric not in known:
        raise refuse(f"{place}.metric", metric, "is not known", suggest(metric, known))
    lowest, highest = read_range(metric)
    between = f"of at least {lowest}" if highest == math.inf else f"between {lowest} and {highest}"
    for position, threshold in enumerate(quality["thresholds"]):
        if not lowest <= threshold <= highest:
            problem = f"is a value that {metric} never has"
            raise refuse(f"{place}.thresholds[{position}]", threshold, problem, f"give one {between}")
    if quality["margin"] >= highest - lowest:
        problem = f"takes all values of {metric} for the same"
        raise refuse(f"{place}.margin", quality["margin"], problem, f"give less than {highest - lowest}")


def check_metric(place: str, metric: str, dataset: str, data: Description) -> None:
    """Raise ConfigError for a metric that is not defined on a data set, or that is the same for every network."""
    labels = SEVERAL if data.multi_label else ONE
    if labels not in read_constant(metric, "LABELS"):
        other = "one label an image" if data.multi_label else "any number of labels an image"
        has = "any number of labels" if data.multi_label else "one label"
        problem = f"is for {other}, and an image of {dataset} has {has}"
        raise refuse(place, metric, problem, f"choose {' or '.join(list_possible(data))}")
    most = read_constant(metric, "MAX_CLASSES", data.num_classes)
    if data.num_classes > most:
        problem = f"is for at most {most} classes, and {dataset} has {data.num_classes}"
        raise refuse(place, metric, problem, f"choose {' or '.join(list_possible(data))}")
    if data.num_classes < read_fewest_classes(metric, data):
        classes = f"{data.num_classes} classes" if data.num_classes > 1 else "only class"
        remedy = "choose accuracy" if data.num_classes > 1 else "take a data set with at least 2 classes"
        raise refuse(place, metric, f"is the same for every network on the {classes} of {dataset}", remedy)


def read_fewest_classes(metric: str, data: Description) -> int:
    return read_constant(metric, "MIN_CLASSES", 1 if data.multi_label else 2)


def list_possible(data: Description) -> list[str]:
    """List the metrics that are defined on a data set and can tell networks apart."""
    labels, has = SEVERAL if data.multi_label else ONE, data.num_classes
    return [
        name
        for name in list_metrics()
        if labels in read_constant(name, "LABELS")
        and read_fewest_classes(name, data) <= has <= read_constant(name, "MAX_CLASSES", has)
    ]
