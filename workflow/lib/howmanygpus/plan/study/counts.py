"""The device counts of a study with `num_gpus: auto`: 1, 2, 4 and so on, and all devices of the machine."""

from howmanygpus.plan.config.errors import refuse
from howmanygpus.plan.config.machine import Device, Machine
from howmanygpus.plan.largest.sizes import list_numbers
from howmanygpus.plan.runs import Run
from howmanygpus.plan.study.grid import resolve_devices
from howmanygpus.plan.study.placing import can_be_placed

AUTO = "auto"


def take_counts(place: str, config: dict, machine: Machine) -> list[dict]:
    """Put the device counts in place of `auto`, and return rules that exclude the counts that a device lacks.

    place: of the study in the config. config: complete; it is changed. Raises ConfigError with `scaling: both`.
    """
    if config["num_gpus"] != AUTO:
        return []
    if config["scaling"] == "both":
        remedy = "make one study of weak scaling and one of strong scaling, or list the counts"
        raise refuse(f"{place}.num_gpus", AUTO, "can be other counts for weak than for strong scaling", remedy)
    names = resolve_devices(place, config["devices"], machine)
    # A device that the machine lacks is named as a shortage by the plan.
    counts = {name: list_counts(machine.device(name), machine.count(name), config) or [1] for name in names}
    config["num_gpus"] = sorted(set().union(*counts.values()))
    return [
        {"device": name, "num_gpus": count}
        for name in names
        for count in config["num_gpus"]
        if count not in counts[name]
    ]


def leave_out(lacking: list[dict], runs: list[Run]) -> list[Run]:
    """Return the runs on device counts that exist. lacking: as take_counts returns it."""
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
