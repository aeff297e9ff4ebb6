"""Checks settings of a study that depend on whether an image has one label or any number of them."""

import ast
from functools import cache

from howmanygpus.plan.config.checks import METRICS, list_metrics
from howmanygpus.plan.config.errors import refuse
from howmanygpus.prepare.sources import Description

SEVERAL, ONE = "several", "one"


def check_labels(place: str, variants: dict, config: dict, data: Description) -> None:
    """Raise ConfigError for a metric or label smoothing that the labels of the data set do not allow.

    variants: the complete training settings of each variant. config: the complete study.
    """
    check_metric(f"{place}.quality.metric", config["quality"]["metric"], config["dataset"], data)
    for variant, settings in variants.items():
        if data.multi_label and settings["label_smoothing"]:
            given = "label_smoothing" in config["variants"][variant]
            raise refuse(
                f"{place}.variants.{variant}.label_smoothing" if given else f"{place}.label_smoothing",
                settings["label_smoothing"],
                f"is for one label an image, and an image of {config['dataset']} has any number of labels",
                "remove it",
            )


def check_metric(place: str, metric: str, dataset: str, data: Description) -> None:
    """Raise ConfigError for a metric that is not defined on a data set, or that is the same for every network."""
    labels = SEVERAL if data.multi_label else ONE
    if labels not in read_constant(metric, "LABELS"):
        other = "one label an image" if data.multi_label else "any number of labels an image"
        has = "any number of labels" if data.multi_label else "one label"
        possible = [name for name in list_metrics() if labels in read_constant(name, "LABELS")]
        problem = f"is for {other}, and an image of {dataset} has {has}"
        raise refuse(place, metric, problem, f"choose {' or '.join(possible)}")
    fewest = read_constant(metric, "FEWEST_CLASSES", 2)
    if data.num_classes < fewest:
        problem = f"is the same for every network on the {data.num_classes} classes of {dataset}"
        raise refuse(place, metric, problem, "choose accuracy")


@cache
def read_constant(metric: str, name: str, default=None):
    """Return a literal constant of a metric's module, since `plan` must not import `report`."""
    for statement in ast.parse((METRICS / f"{metric}.py").read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
            return ast.literal_eval(statement.value)
    return default
