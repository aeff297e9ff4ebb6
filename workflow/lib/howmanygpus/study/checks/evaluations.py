"""Checks which images a study evaluates besides those that each framework does, once its batches are known."""

from howmanygpus.config.errors import ConfigError, refuse
from howmanygpus.study.protocols import FULL_BATCHES, OTHER_IMAGES
from howmanygpus.study.study import Study


def check(study: Study) -> None:
    """Raise ConfigError for other images in evaluation that are all images, or none."""
    if study.largest and study.largest.is_open:
        return
    num_test, rules = study.description.num_test, study.config["protocols"][OTHER_IMAGES]
    for framework, rule in rules.items():
        place = f"{study.place}.protocols.{OTHER_IMAGES}.{framework}"
        counts = {study.count_evaluated(run) for run in study.runs if run.framework == framework} - {None}
        if 0 in counts:
            problem = f"leaves none of the {num_test} test images, which fill no batch"
            raise refuse(place, rule, problem, "give a number of images or lower eval_batch_size")
        if rule != FULL_BATCHES and rule >= num_test:
            problem = f"has no effect: there are {num_test} test images"
            raise refuse(place, rule, problem, f"give less than {num_test} or remove it")
        if counts == {num_test}:
            problem = f"has no effect: the {num_test} test images fill all batches"
            raise refuse(place, rule, problem, "give a number of images, change eval_batch_size or remove it")
        if not counts:
            raise ConfigError(f"{place}: no run of {framework} is evaluated; remove it")
