"""Checks the runs of a study: their layouts, seeds, batches and steps."""

from howmanygpus.config.errors import refuse
from howmanygpus.study.adaptive.keys import count_repeats
from howmanygpus.study.config.images import compute_image_shape
from howmanygpus.study.config.places import locate
from howmanygpus.study.networks import check_statistics
from howmanygpus.study.own.model import OwnModel
from howmanygpus.study.study import Study

MAX_SEED = 2**32 - 1
"""Keras accepts no larger one."""


def check(study: Study) -> None:
    """Raise ConfigError for layouts that the machine lacks, and for batches and steps that the data set cannot give."""
    check_layouts(study)
    check_seeds(study)
    _check_independent(study)
    num_train, stored = study.description.num_train, study.description.image_shape
    unfair = [settings for by_framework in study.unfair.values() for settings in by_framework.values()]
    layouts = {(run.num_gpus, run.per_device_batch_size, study.accumulate(run)) for run in study.runs}
    for num_gpus, size, count in sorted(layouts):
        steps_per_epoch = num_train // (num_gpus * size * count)
        if steps_per_epoch == 0:
            times = f", accumulated {count} times," if count > 1 else ""
            raise refuse(
                f"{study.place}.per_device_batch_size",
                size,
                f"on {num_gpus} device{'s' * (num_gpus > 1)}{times} is more than the {num_train} training images",
                "lower it, accumulate or num_gpus" if count > 1 else "lower it or num_gpus",
            )
        for settings in [] if isinstance(study.own_model, OwnModel) else [*study.variants.values(), *unfair]:
            together = num_gpus if settings["batchnorm"] == "synchronized" and not settings["independent"] else 1
            check_statistics(study.place, *study.network, compute_image_shape(settings, stored), size * together)
        for variant, settings in study.variants.items():
            num_steps = settings["steps"] or settings["epochs"] * steps_per_epoch
            if num_steps <= settings["warmup_steps"]:
                raise refuse(
                    f"{study.place}.warmup_steps",
                    settings["warmup_steps"],
                    f"leaves no step to measure of the {num_steps} of variant {variant} with {num_gpus} x {size}",
                    "lower it or train longer",
                )


def _check_independent(study: Study) -> None:
    """Raise ConfigError for independent runs whose batch would depend on the number of devices."""
    for variant, settings in study.variants.items():
        if settings["independent"] and study.config["scaling"] != "weak":
            place = locate("independent", study.place, variant, study.config["variants"])
            problem = (
                f"is the same run on each device, whose batch would change with scaling: {study.config['scaling']}"
            )
            raise refuse(place, True, problem, "write scaling: weak, or make a study of their own for these runs")


def check_layouts(study: Study) -> None:
    """Raise ConfigError for a number of devices that does not spread evenly over the fewest nodes that hold it.

    A study with the key `num_nodes` has the reason in the table of its runs instead.
    """
    layouts = set() if study.config["num_nodes"] else {(run.device, run.num_gpus) for run in study.runs}
    for name, num_gpus in sorted(layouts):
        device = study.machine.device(name)
        if device.max_nodes >= device.num_nodes(num_gpus) and num_gpus % device.num_nodes(num_gpus):
            raise refuse(
                f"{study.place}.num_gpus",
                num_gpus,
                f"does not spread evenly over {device.num_nodes(num_gpus)} nodes of {name} devices",
                f"choose {' or '.join(map(str, device.compute_nearest_counts(num_gpus)))}",
            )


def check_seeds(study: Study) -> None:
    """Raise ConfigError if the seed of a later repeat is too large. Each repeat adds 1 to the seed of the first."""
    first, repeats = study.config["seed"], count_repeats(study.config)
    if (last := first + repeats - 1) > MAX_SEED:
        problem = f"gives repeat {repeats} the seed {last}, which is too large"
        raise refuse(f"{study.place}.seed", first, problem, f"give at most {MAX_SEED - repeats + 1}")
