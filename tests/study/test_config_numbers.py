"""Every number of a config and of a machine file is refused if it is not finite, of another type, negative or zero.

Numbers of which zero or less has a meaning are named here, so that the schemas do not decide alone what is too small.
"""

import math

import pytest
import yaml

from howmanygpus.config.errors import ConfigError
from howmanygpus.config.schema import read_schema
from howmanygpus.site.machine import Device, Machine, read_machine
from howmanygpus.study.plan import Plan
from project import study

CPU = Machine("machine.yaml", {"cpu": Device(8, 1)})
NAMES = {"studies": "s", "datasets": "d", "devices": "cpu"}
"""Names to give to entries of objects with names of the user; those of the other objects are of frameworks."""
BESIDE = {
    "predict": {"num_gpus": [64]},
    "random_resized_crop": {"size": [6, 6]},
    "datasets": {"d": {"source": "image_folder"}},
    "split": {"test": 0.2},
}
"""Keys that are required beside a wrong one."""
ZERO = {
    "accumulate": False,
    "area[0]": False,
    "aspect[0]": False,
    "beta1": True,
    "beta2": True,
    "budget": False,
    "budget_device_h": False,
    "cases": False,
    "concurrent_runs": False,
    "cores_per_device": False,
    "crop[0]": False,
    "deadline_h": False,
    "devices_per_node": False,
    "epochs": False,
    "epsilon": False,
    "eval_batch_size": False,
    "eval_every_epochs": False,
    "eval_other_images.pytorch_ddp": False,
    "gate_limit_min": False,
    "gradient_noise_every_epochs": False,
    "image_shape[0]": False,
    "label_smoothing": True,
    "learning_rate": False,
    "loader_workers": False,
    "loss_scale": False,
    "lr_reference_batch_size": False,
    "lr_step_epochs[0]": False,
    "lr_step_factor": False,
    "lr_warmup_epochs": True,
    "margin": False,
    "max_nodes": False,
    "memory_per_device_mb": False,
    "momentum": True,
    "num_bytes": False,
    "num_classes": False,
    "num_gpus[0]": False,
    "num_nodes": False,
    "num_nodes[0]": False,
    "num_test": False,
    "num_train": False,
    "overhead_min": False,
    "per_device_batch_size[0]": False,
    "powersgd_rank": False,
    "prefetch": True,
    "price_per_hour": True,
    "within_node": False,
    "between_nodes": False,
    "probe_steps": False,
    "random_crop_padding": True,
    "rendezvous_timeout_s": False,
    "repeats": False,
    "repeats_limit": False,
    "repeats_precision": False,
    "seed": True,
    "shard_images": False,
    "size[0]": False,
    "steps": False,
    "stop_below_efficiency": False,
    "telemetry_interval_s": False,
    "test": False,
    "thresholds[0]": True,
    "time_limit_min": False,
    "train_best": False,
    "warmup_steps": False,
    "weight_decay": True,
    "window_steps": False,
    "worth_doubling": False,
}
"""Whether zero is a value, by the end of the place."""


def list_numbers(schema: dict, rule: dict, place: str = "") -> list[tuple[str, str]]:
    """Return place and type of each number that a file of a schema can have."""
    if "$ref" in rule:
        rule = {**schema["$defs"][rule["$ref"].rpartition("/")[2]], **rule}
    found = [(place, kind) for kind in ("integer", "number") if kind in rule.get("type", ())]
    if place.endswith((".variants", ".program", ".exclude")):
        return []
    for key, inner in rule.get("properties", {}).items():
        found += list_numbers(schema, inner, f"{place}.{key}")
    if isinstance(others := rule.get("additionalProperties"), dict):
        found += list_numbers(schema, others, f"{place}.{NAMES.get(place.strip('.'), 'pytorch_ddp')}")
    if "items" in rule:
        found += list_numbers(schema, rule["items"], f"{place}[0]")
    return found


CONFIG = list_numbers(read_schema("config"), read_schema("config"))
MACHINE = list_numbers(read_schema("machine"), read_schema("machine"))
NUMBERS = [("config", *number) for number in CONFIG] + [("machine", *number) for number in MACHINE]


def put(place: str, value) -> dict:
    """Return a config that gives a value at a place such as `.studies.s.num_gpus[0]`, with what is required beside."""
    *outer, key = place.strip(".").split(".")
    if key.endswith("[0]"):
        key, value = key.removesuffix("[0]"), [value]
        value += {"crop": [6], "size": [6], "area": [1], "aspect": [1], "image_shape": [6, 1]}.get(key, [])
    change = {key: value}
    for name in reversed(outer):
        listed = name.endswith("[0]")
        change = {name.removesuffix("[0]"): [change] if listed else merge(BESIDE.get(name, {}), change)}
    return change


def merge(first: dict, second: dict) -> dict:
    """Return both dictionaries in one; the second decides, at each depth."""
    shared = {key for key in first.keys() & second.keys() if isinstance(first[key], dict)}
    return {**first, **second} | {key: merge(first[key], second[key]) for key in shared}


@pytest.fixture
def refused(tmp_path):
    """Return a function that returns the message by which a value is refused."""

    def refused(file: str, place: str, value) -> str:
        with pytest.raises(ConfigError) as error:
            if file == "machine":
                path = tmp_path / "machine.yaml"
                path.write_text(yaml.safe_dump(put(place, value)))
                read_machine(path)
            else:
                given = {"studies": {"s": study(frameworks=["pytorch_ddp"], devices=["cpu"])}}
                Plan(merge(given, put(place, value)), CPU)
        return str(error.value).removeprefix(f"{tmp_path}/machine.yaml: ")

    return refused


def allows_zero(place: str) -> bool:
    (allowed,) = {allowed for end, allowed in ZERO.items() if place.endswith(f".{end}")}
    return allowed


def test_the_files_have_these_numbers():
    places = {place for place, _ in CONFIG + MACHINE}
    assert {
        ".studies.s.num_gpus[0]",
        ".studies.s.seed",
        ".studies.s.crop[0]",
        ".studies.s.optimizer.by_framework.pytorch_ddp.learning_rate",
        ".studies.s.random_resized_crop.area[0]",
        ".datasets.d.options.split.test",
        ".datasets.d.options.downloads[0].num_bytes",
        ".devices.cpu.price_per_hour",
        ".slurm.overhead_min",
    } < places
    assert {end for end in ZERO if not any(place.endswith(f".{end}") for place in places)} == set()


@pytest.mark.parametrize(("file", "place", "kind"), NUMBERS)
def test_no_number_is_infinite_or_nan_or_of_another_type(refused, file, place, kind):
    for value, written in ((math.nan, ".nan"), (math.inf, ".inf"), (-math.inf, "-.inf")):
        assert refused(file, place, value).startswith(f"{place[1:]}: {written} is not finite; write a ")
    if kind == "integer":
        assert refused(file, place, 4.0).startswith(f"{place[1:]}: 4.0 is not of type integer")
        assert refused(file, place, 4.0).endswith("; write 4")
    assert refused(file, place, "1e3").startswith(f'{place[1:]}: "1e3" is text, not a number; write 1000')


@pytest.mark.parametrize(("file", "place"), [number[:2] for number in NUMBERS])
def test_no_number_is_negative(refused, file, place):
    assert refused(file, place, -1).startswith(f"{place[1:]}: -1 ")


@pytest.mark.parametrize(("file", "place"), [number[:2] for number in NUMBERS if not allows_zero(number[1])])
def test_no_number_is_zero_unless_zero_means_something(refused, file, place):
    assert refused(file, place, 0).startswith(f"{place[1:]}: 0 is too small; give ")
