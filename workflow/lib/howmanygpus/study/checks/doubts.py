"""
Finds values of a study that are possible, but probably a mistake.

In all functions, variants are the complete training settings of each variant, and given is what the config gives.
"""

from howmanygpus.config.findings import Finding
from howmanygpus.site.machine import Device
from howmanygpus.study.config.learning import warn_about_learning
from howmanygpus.study.config.places import locate
from howmanygpus.study.networks import IMAGENET, choose_normalization
from howmanygpus.study.study import Study

MAX_WORKERS_PER_CORE = 4
"""Workers that wait for a disk can share a core; beyond this number they only compete for it."""
MAX_PREFETCH = 100
"""Batches ahead of the training; a few are enough to hide irregular loading."""


def find_doubts(study: Study) -> list[Finding]:
    """Return each value that is possible, but probably a mistake."""
    known = {run.device: study.machine.device(run.device) for run in study.runs}
    devices = {name: device for name, device in known.items() if device.count}
    largest = max(study.global_batch_size(run) for run in study.runs)
    place, variants, given = study.place, study.variants, study.config["variants"]
    return [
        *warn_about_workers(place, variants, given, devices),
        *warn_about_batches(place, variants, given, study.description.num_test),
        *warn_about_learning(
            place, study.config["frameworks"], variants, given, study.description.num_train // largest
        ),
        *warn_about_normalization(study),
    ]


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


def warn_about_normalization(study: Study) -> list[Finding]:
    """Return a warning for each variant whose published weights were trained on images normalised by other values."""
    doubts = []
    for variant, settings in study.variants.items():
        model = study.config["model"]
        expected = choose_normalization(settings | {"normalization": None}, model) if study.own_model is None else None
        if settings["init"] == IMAGENET and settings["normalization"] not in (None, expected):
            place = locate("normalization", study.place, variant, study.config["variants"])
            problem = f"is not what the published weights of {model} were trained with, which is {expected}"
            doubts.append(Finding(place, settings["normalization"], problem, f"write {expected} or leave it out"))
    return doubts
