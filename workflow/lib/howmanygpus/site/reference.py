"""Finds the interpreter that measures the reference kernel, and the folder that keeps the rates."""

import dataclasses
import json
import sys
from pathlib import Path

from howmanygpus.base.environment import resolve_cache
from howmanygpus.measure.around.reference import ReferencePlan
from howmanygpus.site.environments.build import is_complete


def plan_reference(described: dict | None) -> dict | None:
    """Return the fields of a ReferencePlan; None if the kernel is not to be measured.

    described: the record of PyTorch's environment (`environment`) for GPUs, None for CPU devices, and the number of
    devices of a node (`num_devices`). CPU devices are measured by the workflow's own Python, which is the same for all
    frameworks. No environment is built only for the kernel.
    """
    if described is None:
        return None
    record, python, why = described["environment"], sys.executable, ""
    if record:
        built = json.loads(Path(record).read_text()) if Path(record).exists() else {}
        python = built.get("python", "")
        if not built or not ("existing" in built or is_complete(python)):
            why = "GPUs are measured with PyTorch, whose environment is not built, because no run needs it"
    plan = ReferencePlan(python, str(resolve_cache()), described["num_devices"], why)
    return dataclasses.asdict(plan)
