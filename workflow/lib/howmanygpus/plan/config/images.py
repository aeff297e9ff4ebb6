"""Checks how a study crops its images and uses their labels, and finds the size of the images that a network gets.

In functions of crops, variants are the complete training settings of each variant, and given is what the config gives.
"""

import ast
from functools import cache

from howmanygpus.plan.config.checks import METRICS, list_metrics, locate
from howmanygpus.plan.config.errors import refuse
from howmanygpus.prepare.sources import Description

RESIZED = "random_resized_crop"
CROPS = ("crop", RESIZED)
"""Keys that change the size of the images which a network gets."""
SEVERAL, ONE = "several", "one"


def find_image_shape(settings: dict, stored: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return height, width and channels of the images that a network gets. stored: those of the prepared images."""
    resized, height_and_width = settings[RESIZED], settings["crop"] or stored[:2]
    height, width = resized["size"] if resized else height_and_width
    return height, width, stored[2]


def check_crops(place: str, variants: dict, given: dict, stored: tuple[int, int, int]) -> None:
    """Raise ConfigError for crops that the stored images do not allow, or that contradict each other."""
    for variant, settings in variants.items():
        where = {key: locate(key, place, variant, given) for key in ("crop", "random_crop_padding", RESIZED)}
        if settings[RESIZED]:
            _check_resized(where, settings, stored)
        elif settings["crop"]:
            _check_size(where["crop"], settings["crop"], stored)
        padding, (height, width, _) = settings["random_crop_padding"], find_image_shape(settings, stored)
        if padding >= min(height, width):
            problem = f"crops images of {height}x{width} pixels to nothing but padding"
            raise refuse(where["random_crop_padding"], padding, problem, f"give less than {min(height, width)}")


def _check_resized(where: dict, settings: dict, stored: tuple[int, int, int]) -> None:
    for key, none in (("crop", None), ("random_crop_padding", 0)):
        if settings[key]:
            no = "null" if none is None else none
            problem = f"has no meaning beside {where[RESIZED]}, which crops each image by itself"
            raise refuse(
                where[key], settings[key], problem, f"leave one of them out, or write {key}: {no} in the variant"
            )
    for key in ("area", "aspect"):
        low, high = settings[RESIZED][key]
        if low > high:
            problem = "has the largest value first"
            raise refuse(f"{where[RESIZED]}.{key}", settings[RESIZED][key], problem, f"write [{high}, {low}]")
    _check_size(f"{where[RESIZED]}.size", settings[RESIZED]["size"], stored)


def _check_size(place: str, size: list[int], stored: tuple[int, int, int]) -> None:
    if size[0] > stored[0] or size[1] > stored[1]:
        problem = f"is larger than the stored images, which are {stored[0]} high and {stored[1]} wide"
        raise refuse(place, size, problem, f"give at most [{stored[0]}, {stored[1]}], or prepare larger images")


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
        problem = f"is for {other}, and an image of {dataset} has {has}"
        raise refuse(place, metric, problem, f"choose {' or '.join(list_possible(data))}")
    most = read_constant(metric, "MOST_CLASSES", data.num_classes)
    if data.num_classes > most:
        problem = f"is for at most {most} classes, and {dataset} has {data.num_classes}"
        raise refuse(place, metric, problem, f"choose {' or '.join(list_possible(data))}")
    if data.num_classes < find_fewest_classes(metric, data):
        classes = f"{data.num_classes} classes" if data.num_classes > 1 else "only class"
        remedy = "choose accuracy" if data.num_classes > 1 else "take a data set with at least 2 classes"
        raise refuse(place, metric, f"is the same for every network on the {classes} of {dataset}", remedy)


def find_fewest_classes(metric: str, data: Description) -> int:
    return read_constant(metric, "FEWEST_CLASSES", 1 if data.multi_label else 2)


def list_possible(data: Description) -> list[str]:
    """List the metrics that are defined on a data set and can tell networks apart."""
    labels, has = SEVERAL if data.multi_label else ONE, data.num_classes
    return [
        name
        for name in list_metrics()
        if labels in read_constant(name, "LABELS")
        and find_fewest_classes(name, data) <= has <= read_constant(name, "MOST_CLASSES", has)
    ]


@cache
def read_constant(metric: str, name: str, default=None):
    """Return a literal constant of a metric's module, since `plan` must not import `report`."""
    for statement in ast.parse((METRICS / f"{metric}.py").read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
            return ast.literal_eval(statement.value)
    return default
