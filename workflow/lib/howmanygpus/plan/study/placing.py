"""The numbers of nodes on which a study runs its device counts: the fewest, or those of its key `num_nodes`."""

from howmanygpus.plan.config.machine import Device


def take_numbers(config: dict) -> None:
    """Turn `num_nodes` into a list if it is one number. config: complete; it is changed."""
    if isinstance(config["num_nodes"], int):
        config["num_nodes"] = [config["num_nodes"]]


def choose_nodes(device: Device, num_gpus: int, wanted: int | None) -> int | None:
    """Return the number of nodes that a run's path names; None for the fewest nodes that hold its devices.

    wanted: an entry of `num_nodes`; None without the key. One device is on one node whatever is wanted.
    """
    if wanted is None or num_gpus == 1 or wanted == device.num_nodes(num_gpus):
        return None
    return wanted


def find_misplacement(device: Device, num_gpus: int, wanted: int | None) -> str:
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


def can_be_placed(device: Device, num_gpus: int, numbers: list[int] | None) -> bool:
    """Whether the device count can be on one of the numbers of nodes."""
    return not numbers or any(not find_misplacement(device, num_gpus, wanted) for wanted in numbers)
