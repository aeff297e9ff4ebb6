"""Accelerator stacks: the driver that an environment's CUDA needs."""

LOWEST_DRIVERS = {"cuda11": (450, 80), "cuda12": (525, 60), "cuda13": (580, 65)}
"""Lowest driver of each stack on Linux (NVIDIA, CUDA Toolkit release notes, minor version compatibility)."""


def get_stack(environment: str) -> str:
    """Return the stack of an environment, for example cuda13 for pytorch-cuda13."""
    return environment.rpartition("-")[2]


def find_refusal(environment: str, driver: str | None) -> str:
    """Return why a driver cannot run an environment; empty if it can, or if CUDA or the driver is unknown."""
    stack = get_stack(environment)
    if stack not in LOWEST_DRIVERS or driver is None:
        return ""
    lowest = LOWEST_DRIVERS[stack]
    if tuple(map(int, driver.split(".")[:2])) >= lowest:
        return ""
    return f"{environment} needs driver {lowest[0]}.{lowest[1]} or later, the node has {driver}"
