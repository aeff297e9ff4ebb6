"""
The grid of a study: its devices, device counts and numbers of nodes, and every combination of its axes as runs.

`num_gpus: auto` is 1, 2, 4 and so on, and all devices of the machine. Device counts are on the fewest nodes that hold
them, or on the numbers of nodes of the key `num_nodes`.
"""

import itertools
import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from howmanygpus.config.errors import ConfigError, refuse
from howmanygpus.measure.spec import RANDOM_INPUTS
from howmanygpus.site.machine import Device, Machine
from howmanygpus.study.adaptive.keys import AUTO, count_repeats
from howmanygpus.study.largest.sizes import MAX, UNRESOLVED, list_numbers
from howmanygpus.study.runs import Run
from howmanygpus.study.study import AnyStudy, Study

MAX_RUNS = 100_000
"""A larger number of runs is considered a mistake in the lists of a study."""


def expand(study: AnyStudy) -> AnyStudy:
    """Return a study with its runs, those that are not supported with their reason.

    Raises ConfigError for too many runs and for rules of `exclude` that match none.
    """
    config, machine = study.config, study.machine
    runs: list[Run] = []
    devices = resolve_devices(study.place, config["devices"], machine)
    axes = [config["frameworks"], [*study.variants, *study.unfair], config["inputs"], config["precision"], devices]
    axes += [list_batches(study), config["num_nodes"] or [None]]
    repeats = count_repeats(config)
    check_number(study.place, axes, repeats)
    cells = itertools.product(*axes, range(1, repeats + 1))
    for framework, variant, source, precision, device, (num_gpus, size), wanted, repeat in cells:
        if variant in study.unfair and (framework not in study.unfair[variant] or source in RANDOM_INPUTS):
            continue
        known = machine.device(device)
        settings = study.unfair[variant][framework] if variant in study.unfair else study.variants[variant]
        nodes = choose_nodes(known, num_gpus, wanted)
        layout = (num_gpus, nodes or known.num_nodes(num_gpus))
        reason = explain_misplacement(known, num_gpus, wanted) or explain_parts(known, layout, settings)
        reason = reason or study.explain_unsupported(known, layout, framework, precision, source, settings)
        cell = (framework, variant, source, precision, device, num_gpus, size, repeat)
        runs.append(Run(study.name, *cell, nodes, reason))
    # One device is on one node for each number of nodes.
    runs = list(dict.fromkeys(runs)) if config["num_nodes"] else runs
    runs = exclude_runs(study.place, config["exclude"], filter_out(study.lacking, runs), machine)
    return replace(study, runs=runs)


def list_batches(study: Study) -> list[tuple[int, int]]:
    """Return the device counts with their batch sizes per device, among them that of `max`, which has no number."""
    more = [UNRESOLVED] if MAX in study.config["per_device_batch_size"] else []
    batches = study.accumulations(list_numbers(study.config))
    return [(num_gpus, size) for num_gpus, sizes in batches.items() for size in [*sizes, *more]]


def resolve_devices(place: str, names: list[str], machine: Machine) -> list[str]:
    """Return the distinct devices of the machine that a study names. place: of the study in the config."""
    places = (f"{place}.devices[{position}]" for position in itertools.count())
    return list(dict.fromkeys(map(machine.resolve, names, places)))


def check_number(place: str, axes: list[Collection], repeats: int) -> None:
    """Raise ConfigError if the product of the axes and the repeats is too large to be meant."""
    num_runs = math.prod(map(len, axes)) * repeats
    if num_runs > MAX_RUNS:
        raise refuse(place, num_runs, f"runs are more than {MAX_RUNS}", "shorten its lists or lower repeats")


def exclude_runs(place: str, rules: list[dict], runs: list[Run], machine: Machine) -> list[Run]:
    """Return the runs that no rule of `exclude` matches. Raises ConfigError for a rule without a match."""

    def read(run: Run, key: str) -> Any:
        return machine.count_nodes(run) if key == "num_nodes" else getattr(run, key)

    for position, rule in enumerate(rules):
        # Rules for other models are left out already.
        asked = [(key, UNRESOLVED if value == MAX else value) for key, value in rule.items() if key != "model"]
        kept = [run for run in runs if any(read(run, key) != value for key, value in asked)]
        if len(kept) == len(runs):
            raise refuse(f"{place}.exclude[{position}]", rule, "matches no run", "correct or remove it")
        runs = kept
    if not runs:
        raise ConfigError(f"{place}.exclude: nothing is left to run; remove an entry")
    return runs


def resolve_counts(place: str, config: dict, machine: Machine) -> tuple[list[int], list[dict]]:
    """Return the device counts, also for `auto`, and rules that exclude the counts that a device lacks.

    place: of the study in the config. config: complete. Raises ConfigError with `scaling: both`.
    """
    if config["num_gpus"] != AUTO:
        return add_checked(place, config, machine)
    if config["scaling"] == "both":
        remedy = "make one study of weak scaling and one of strong scaling, or list the counts"
        raise refuse(f"{place}.num_gpus", AUTO, "can be other counts for weak than for strong scaling", remedy)
    if (config["predict"] or {}).get("check"):
        problem = "has nothing to measure, because num_gpus: auto measures all devices"
        raise refuse(f"{place}.predict.check", True, problem, "remove it")
    names = resolve_devices(place, config["devices"], machine)
    # A device that the machine lacks is named as a shortage by the plan.
    counts = {name: list_counts(machine.device(name), machine.count(name), config) or [1] for name in names}
    found = sorted(set().union(*counts.values()))
    lacking = [{"device": name, "num_gpus": count} for name in names for count in found if count not in counts[name]]
    return found, lacking


def add_checked(place: str, config: dict, machine: Machine) -> tuple[list[int], list[dict]]:
    """Return the listed device counts, and the largest predicted one that each device has if it is to be measured.

    Beside them are rules that exclude the counts of other devices. Raises ConfigError for a predicted count that is not
    beyond the listed ones.
    """
    given, predict = config["num_gpus"], config["predict"] or {"num_gpus": [], "check": False}
    for position, count in enumerate(predict["num_gpus"]):
        if count <= max(given):
            problem, remedy = f"is not beyond num_gpus, {max(given)}", "remove it, or give a larger number of devices"
            raise refuse(f"{place}.predict.num_gpus[{position}]", count, problem, remedy)
    if not predict["check"]:
        return given, []
    names = resolve_devices(place, config["devices"], machine)
    possible = {
        name: [
            count
            for count in predict["num_gpus"]
            if count <= machine.count(name) and can_be_placed(machine.device(name), count, config["num_nodes"])
        ]
        for name in names
    }
    largest = {name: max(counts) for name, counts in possible.items() if counts}
    if not largest:
        problem = f"has nothing to measure: no device of {machine.path} has {min(predict['num_gpus'])}"
        raise refuse(f"{place}.predict.check", True, problem, "add a smaller predicted count, or remove check")
    added = sorted(set(largest.values()))
    lacking = [{"device": name, "num_gpus": count} for name in names for count in added if count != largest.get(name)]
    return [*given, *added], lacking


def filter_out(lacking: list[dict], runs: list[Run]) -> list[Run]:
    """Return the runs on device counts that exist. lacking: as resolve_counts returns it."""
    pairs = {(rule["device"], rule["num_gpus"]) for rule in lacking}
    return [run for run in runs if (run.device, run.num_gpus) not in pairs]


def list_counts(device: Device, most: int, config: dict) -> list[int]:
    """Return 1, 2, 4 and so on up to the most devices for one run, and the most itself.

    A count that does not spread evenly over its nodes is replaced by the nearest lower one that does. Counts that fit
    none of the study's numbers of nodes are left out, and under strong scaling also those that do not divide the
    global batches.
    """
    numbers = config["num_nodes"]
    most = min(most, max(numbers) * device.devices_per_node) if numbers else most
    powers = [2**exponent for exponent in range(most.bit_length())]
    even = {_round_down(device, count) for count in [*powers, most] if count}
    even = {count for count in even if can_be_placed(device, count, numbers)}
    batches = [size * config["accumulate"] for size in list_numbers(config)]
    divides_all = (
        count for count in sorted(even) if config["scaling"] == "weak" or not any(batch % count for batch in batches)
    )
    return list(divides_all)


def _round_down(device: Device, count: int) -> int:
    return next(fewer for fewer in range(count, 0, -1) if fewer % device.num_nodes(fewer) == 0)


def choose_nodes(device: Device, num_gpus: int, wanted: int | None) -> int | None:
    """Return the number of nodes that a run's path names; None for the fewest nodes that hold its devices.

    wanted: an entry of `num_nodes`; None without the key. One device is on one node whatever is wanted.
    """
    if wanted is None or num_gpus == 1 or wanted == device.num_nodes(num_gpus):
        return None
    return wanted


def explain_misplacement(device: Device, num_gpus: int, wanted: int | None) -> str:
    """Return why the device count cannot be on the wanted number of nodes; empty if it can.

    Whether the machine has that many nodes is checked elsewhere: it stops the call, as a lack of devices does.
    """
    if wanted is None or num_gpus == 1:
        return ""
    nodes = f"{wanted} node{'s' if wanted > 1 else ''}"
    if num_gpus < wanted:
        return f"{num_gpus} devices are too few for {nodes}, each of which has one at least"
    if num_gpus % wanted:
        return f"{num_gpus} devices do not spread evenly over {nodes}"
    if device.devices_per_node and num_gpus // wanted > device.devices_per_node:
        return f"{num_gpus} devices do not fit on {nodes} with {device.devices_per_node} each"
    return ""


def explain_parts(device: Device, layout: tuple[int, int], settings: dict) -> str:
    """Return why a run cannot use so many parts of GPUs (MIG) of a node; empty if it can.

    layout: the numbers of devices and nodes. settings: of the run's variant.
    """
    num_gpus, num_nodes = layout
    if not device.is_split or num_gpus <= num_nodes or settings.get("independent"):
        return ""
    return (
        f"{num_gpus} parts of GPUs (MIG) on {num_nodes} node{'s' * (num_nodes > 1)} are more than one a node, and CUDA "
        "gives a process only one, and NCCL takes no two of one GPU; give num_gpus 1, or whole GPUs"
    )


def can_be_placed(device: Device, num_gpus: int, numbers: list[int] | None) -> bool:
    """Whether the device count can be on one of the numbers of nodes."""
    return not numbers or any(not explain_misplacement(device, num_gpus, wanted) for wanted in numbers)
