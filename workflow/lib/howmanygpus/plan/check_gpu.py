"""Changes of `make check-gpu` to config/check_gpu.yaml: the frameworks and device found, and growing batch sizes."""

import copy

from howmanygpus.plan.frameworks import FRAMEWORKS

RATES, BATCHES = "check_gpu_rates", "check_gpu_batches"
REFERENCE = "pytorch-cpu"
"""The environment in which the parity gate computes its reference, on the CPU; any build of PyTorch can."""
REHEARSAL = {
    "datasets": {
        "check_gpu_images": {"options": {"image_shape": [8, 8, 3], "num_train": 256, "num_test": 64}},
        "check_gpu_batches": {"options": {"image_shape": [8, 8, 3], "num_train": 64, "num_test": 16}},
    },
    "studies": {
        RATES: {"per_device_batch_size": [16], "steps": 24, "warmup_steps": 4, "window_steps": 10, "loader_workers": 1},
        BATCHES: {"per_device_batch_size": [32], "eval_batch_size": 16, "loader_workers": 1},
    },
}
"""Sizes for all steps on a machine without a GPU, by the same keys as in the config."""


def list_environments(device_kind: str) -> dict[str, list[str]]:
    """Return the frameworks that could run on a kind of device, by the name of their environment."""
    environments: dict[str, list[str]] = {}
    for name, entry in FRAMEWORKS.items():
        if device_kind in entry.environments:
            environments.setdefault(entry.environments[device_kind], []).append(name)
    return environments


def describe_machine(pythons: dict[str, str]) -> dict:
    """Return a machine file with the interpreters that replace environments, by the environment's name."""
    return {"environments": {name: {"python": python} for name, python in sorted(pythons.items())}}


def take_one_per_family(frameworks: list[str]) -> list[str]:
    """Return the first framework of each family: the strategies of a family need the same memory on one device."""
    first = {FRAMEWORKS[name].family: name for name in reversed(frameworks)}
    return [name for name in frameworks if name in first.values()]


def describe_changes(frameworks: list[str], device: str, machine: str) -> dict:
    """Return the keys that override the config. frameworks: those found; device: `cuda` or `cpu`; machine: its file."""
    changes: dict = copy.deepcopy(REHEARSAL) if device == "cpu" else {"studies": {RATES: {}, BATCHES: {}}}
    found = [name for name in FRAMEWORKS if name in frameworks]
    for study, names in {RATES: found, BATCHES: take_one_per_family(found)}.items():
        changes["studies"][study] |= {"devices": [device], "frameworks": names}
    return changes | {"machine": machine}


def add_size(study: dict, growing: list[str], num_train: int) -> bool:
    """Double the largest batch size of a study for some of its frameworks; return whether there is anything to run.

    growing: frameworks whose runs with the largest size completed. num_train: number of training images, which is the
    largest possible batch. `study` is changed: its other frameworks are excluded at the new size.
    """
    size = 2 * max(study["per_device_batch_size"])
    if not growing or size > num_train:
        return False
    study["per_device_batch_size"] = [*study["per_device_batch_size"], size]
    left_out = [name for name in study["frameworks"] if name not in growing]
    study["exclude"] = study.get("exclude", []) + [
        {"framework": name, "per_device_batch_size": size} for name in left_out
    ]
    return True
