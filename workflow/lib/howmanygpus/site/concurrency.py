"""Says how many runs are measured at the same time, for Snakemake and for the report."""

from howmanygpus.site.machine import Machine

MEASURED_RUN = 100
"""Amount of the resource `measurement` that a measured run takes."""


def limit_measurements(machine: Machine, submits: bool) -> int | None:
    """Return how much of the resource `measurement` all jobs may take together, or None if there is no limit.

    submits: whether runs become jobs of a scheduler. If they start here, a measured run takes all of it.
    """
    concurrent_runs = machine.slurm["concurrent_runs"] if submits else 1
    return concurrent_runs and MEASURED_RUN * concurrent_runs


ORDER = "repeat by repeat, each in random order"


def describe_concurrency(machine: Machine) -> str:
    """Return the sentences of the report on the order of the runs, and on what they share."""
    if not machine.submits:
        return f"Runs are measured {ORDER}, one at a time."
    concurrent_runs = machine.slurm["concurrent_runs"]
    if concurrent_runs == 1:
        return f"Runs are jobs, submitted {ORDER}, one at a time."
    count = f"at most {concurrent_runs} at a time" if concurrent_runs else "as many at a time as SLURM starts"
    has_shared = any(device.options.get("nodes") == "shared" for device in machine.devices.values())
    nodes = "on nodes that they may share with other jobs" if has_shared else "on nodes of their own"
    return (
        f"Runs are jobs, submitted {ORDER}, {count}, {nodes}. Runs at the same time share the "
        "file system and the network between nodes."
    )
