"""Whether other work on the machine disturbed a run."""

OTHER_CPU_LIMIT = 0.05
"""Largest fraction of the CPU time of a run's cores that other processes may use in the measured windows.

Repeats on an otherwise idle machine differ by 1 to 3 %. A smaller fraction has an effect within that spread.
"""


def is_disturbed(record: dict) -> bool | None:
    """Return whether other processes used a run's cores or GPUs while it was measured; None if it was not observed.

    record: a run.json. Records of earlier versions have no `disturbance`.
    """
    seen = record.get("disturbance") or {}
    other_cpu_frac, other_gpu_processes = seen.get("other_cpu_frac"), seen.get("other_gpu_processes")
    if other_cpu_frac is None and other_gpu_processes is None:
        return None
    return (other_cpu_frac or 0) > OTHER_CPU_LIMIT or (other_gpu_processes or 0) > 0
