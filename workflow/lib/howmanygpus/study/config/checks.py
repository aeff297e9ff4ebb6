"""Checks values of a study that depend on the data set or the machine.

In all functions, variants are the complete training settings of each variant, and given is what the config gives.
"""

from howmanygpus.config.errors import refuse
from howmanygpus.config.findings import Finding
from howmanygpus.site.machine import Device
from howmanygpus.study.adaptive.keys import count_repeats

MAX_WORKERS_PER_CORE = 4
"""Workers that wait for a disk can share a core; beyond this number they only compete for it."""
MAX_PREFETCH = 100
"""Batches ahead of the training; a few are enough to hide irregular loading."""

MAX_SEED = 2**32 - 1
"""Keras accepts no larger one."""


def check_seeds(place: str, config: dict) -> None:
    """Raise ConfigError if the seed of a later repeat is too large. Each repeat adds 1 to the seed of the first."""
    repeats = count_repeats(config)
    if (last := config["seed"] + repeats - 1) > MAX_SEED:
        problem = f"gives repeat {repeats} the seed {last}, which is too large"
        raise refuse(f"{place}.seed", config["seed"], problem, f"give at most {MAX_SEED - repeats + 1}")


def warn_about_workers(place: str, variants: dict, given: dict, devices: dict[str, Device]) -> list[Finding]:
    """Return a warning for each variant with more loader workers than the cores of a device can use.

    devices: the devices that the machine has, by name.
    """
    if not devices:
        return []
    name, device = min(devices.items(), key=lambda item: item[1].cores_per_device)
    cores = f"{device.cores_per_device} core{'s' * (device.cores_per_device > 1)}"
    return [
        Finding(
            locate("loader_workers", place, variant, given),
            settings["loader_workers"],
            f"workers share the {cores} of a {name} device; more than {MAX_WORKERS_PER_CORE} a core rarely help",
            "lower it or raise cores_per_device",
        )
        for variant, settings in variants.items()
        if settings["loader_workers"] > MAX_WORKERS_PER_CORE * device.cores_per_device
    ]


def warn_about_batches(place: str, variants: dict, given: dict, num_test: int) -> list[Finding]:
    """Return a warning for each variant that prefetches very many batches, or evaluates more images than there are."""
    doubts = []
    for variant, settings in variants.items():
        if settings["prefetch"] > MAX_PREFETCH:
            where = locate("prefetch", place, variant, given)
            problem = "batches are kept in memory; a few are enough"
            doubts.append(Finding(where, settings["prefetch"], problem, "lower it"))
        if (settings["eval_batch_size"] or 0) > num_test:
            where = locate("eval_batch_size", place, variant, given)
            problem = f"is more than the {num_test} test images; the rest of each batch is padding"
            doubts.append(Finding(where, settings["eval_batch_size"], problem, "lower it"))
    return doubts


def locate(key: str, place: str, variant: str, given: dict) -> str:
    """Return the place of a setting: in the variant if the config gives it there, or else in the study."""
    return f"{place}.variants.{variant}.{key}" if key in given[variant] else f"{place}.{key}"
