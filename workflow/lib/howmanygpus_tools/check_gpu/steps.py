"""
Changes of `make check-gpu` to config/check_gpu.yaml: the frameworks and device found, and growing batch sizes.

The runs without wait are derived from runs of its study of rates. They are not part of the config.
"""

import copy
import json
from pathlib import Path

from howmanygpus.measure.spec import RANDOM_INPUTS
from howmanygpus.registry import FRAMEWORKS
from howmanygpus.site.requests import placement
from howmanygpus.study.invalidation.pins import environment_record
from howmanygpus.study.plan import Plan
from howmanygpus.study.runs import Run
from howmanygpus.study.study import Study
from howmanygpus_tools.check_gpu import NETWORKS, waits
from howmanygpus_tools.check_gpu.expert import WAYS
from howmanygpus_tools.check_gpu.waits import RunWithoutWait

RATES, BATCHES = "check_gpu_rates", "check_gpu_batches"
BESIDE_EXPERT = {network: f"check_gpu_{network}" for network in NETWORKS}
"""The study of each network that is also trained in an expert's loops."""
EXPERT_STEPS = {"cuda": 60, "cpu": 2}
"""Measured steps of an expert's loop."""
SMALL = {"options": {"image_shape": [32, 32, 3], "num_classes": 10, "num_train": 64, "num_test": 16}}
SHORT = {"per_device_batch_size": [2], "steps": 6, "warmup_steps": 2, "window_steps": 2, "loader_workers": 1}
REFERENCE = "pytorch-cpu"
"""The environment in which the parity gate computes its reference, on the CPU; any build of PyTorch can."""
REHEARSAL = {
    "datasets": {
        "check_gpu_224": SMALL,
        "check_gpu_32": SMALL,
        "check_gpu_images": {"options": {"image_shape": [8, 8, 3], "num_train": 256, "num_test": 64}},
        "check_gpu_batches": {"options": {"image_shape": [8, 8, 3], "num_train": 64, "num_test": 16}},
    },
    "studies": {
        **dict.fromkeys(BESIDE_EXPERT.values(), SHORT),
        RATES: {"per_device_batch_size": [16], "steps": 24, "warmup_steps": 4, "window_steps": 10, "loader_workers": 1},
        BATCHES: {"per_device_batch_size": [32], "eval_batch_size": 16, "loader_workers": 1},
    },
}
"""Sizes for all steps on a machine without a GPU, by the same keys as in the config."""
WAITS_FOLDER = Path("results/check_gpu/waits")
ASYNCHRONOUS_ON_CPU = ("jax_sharding", "mxnet_gluon")
"""Frameworks that return from a step before it is complete on a CPU too."""
WAIT_STEPS = {"steps": 100, "warmup_steps": 1, "window_steps": 1}
"""Steps of a run without wait. Each step is a window; most of its work would not be done when the window ends."""
IMAGES_PER_GIB = 70
"""Batch of a run without wait, per GiB of the GPU, rounded down to a power of two.

Resnet44 keeps 5 to 7 MiB per image of 32 x 32 pixels in fp32, so that less than half of the memory is used. With such a
batch the device needs several times as long for a step as the host needs to enqueue it.
"""
REHEARSED_BATCH = 64
"""Batch of a run without wait on a machine without a GPU."""


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


def choose_one_per_family(frameworks: list[str]) -> list[str]:
    """Return the first framework of each family: the strategies of a family need the same memory on one device."""
    first = {FRAMEWORKS[name].family: name for name in reversed(frameworks)}
    return [name for name in frameworks if name in first.values()]


def describe_changes(frameworks: list[str], device: str, machine: str, has_gate: bool = True) -> dict:
    """Return the keys that override the config. frameworks: those found; device: `cuda` or `cpu`; machine: its file.

    Without the gate, runs are trained unchecked. A later check with it gives verdicts and repeats no run.
    """
    changes: dict = copy.deepcopy(REHEARSAL) if device == "cpu" else {"studies": {}}
    found = [name for name in FRAMEWORKS if name in frameworks]
    rivals = [name for name in found if name in {framework for framework, _ in WAYS.values()}] or found[:1]
    trained = {RATES: found, BATCHES: choose_one_per_family(found)} | dict.fromkeys(BESIDE_EXPERT.values(), rivals)
    for study, names in trained.items():
        changes["studies"].setdefault(study, {}).update(devices=[device], frameworks=names)
        changes["studies"][study] |= {} if has_gate else {"parity": "off"}
    return changes | {"machine": machine}


def describe_task(study: Study) -> dict:
    """Return what an expert's loop needs of a study, as JSON has it."""
    (batch_size,), optimizer = study.config["per_device_batch_size"], study.config["optimizer"]
    task = {"model": study.config["model"], "image_shape": list(study.description.image_shape)}
    task |= {"num_classes": study.description.num_classes, "batch_size": batch_size}
    return task | {key: optimizer[key] for key in ("learning_rate", "momentum")}


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


def list_wait_runs(plan: Plan, memory_gib: float | None) -> list[RunWithoutWait]:
    """Return a run without wait for each framework: of the stock tier in fp32, on images that stay on the device.

    memory_gib: of the smallest GPU; None to rehearse without one.
    """
    batch = 2 ** (int(IMAGES_PER_GIB * memory_gib).bit_length() - 1) if memory_gib else REHEARSED_BATCH
    chosen: dict[str, Run] = {}
    for source in RANDOM_INPUTS:  # images that are resident, if the framework has such a run
        chosen |= {run.framework: run for run in plan.studies[RATES].runs if _is_plain(run) and run.input == source}
    return [_drop_wait(plan, run, batch, on_gpu=memory_gib is not None) for run in chosen.values()]


def _is_plain(run: Run) -> bool:
    return run.variant == "stock" and run.precision == "fp32" and run.num_gpus == 1


def _drop_wait(plan: Plan, run: Run, batch: int, on_gpu: bool) -> RunWithoutWait:
    spec = plan.studies[RATES].spec(run) | {"study": waits.STUDY, "variant": waits.VARIANT} | WAIT_STEPS
    spec |= {"per_device_batch_size": batch, "global_batch_size": batch}
    # A run that is unsupported is covered by no cell of the gate.
    environment = "" if run.unsupported else environment_record(plan.cells[run.path].environment)
    return RunWithoutWait(
        folder=WAITS_FOLDER / f"{run.framework}_{Path(environment).stem}",
        spec=spec,
        environment=environment,
        verdict=plan.verdicts.get(run.path, ""),
        placement=json.loads(placement(plan.machine, plan.machine.device(run.device))),
        shows_it=on_gpu or run.framework in ASYNCHRONOUS_ON_CPU,
        unsupported=run.unsupported,
    )
